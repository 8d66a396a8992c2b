#include "server/rpc/caller.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"

namespace attn {
namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr size_t kTraceIdBegin = 3;
constexpr size_t kTraceIdSize = 32;
constexpr size_t kParentIdSize = 16;
constexpr size_t kVersion00Size = 55;
constexpr char kTraceparent[] = "traceparent";
constexpr char kAuthorization[] = "authorization";

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           (c >= 'a' && c <= 'f');
  });
}

absl::string_view ToView(grpc::string_ref text) {
  return {text.data(), text.size()};
}

// Its first URI, else its first DNS name, else its common name.
std::string CertificateNameOf(const grpc::AuthContext& peer) {
  if (!peer.IsPeerAuthenticated()) return "";
  for (const char* property :
       {GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME,
        GRPC_X509_CN_PROPERTY_NAME}) {
    const auto values = peer.FindPropertyValues(property);
    if (!values.empty()) return {values[0].data(), values[0].size()};
  }
  return "";
}

// Made once, of the system's randomness.
const std::string& ProcessSecret() {
  static const std::string* const kSecret = [] {
    constexpr size_t kBytes = 32;
    auto* secret = new std::string(kBytes, '\0');
    // Linux has it since 3.17; a process without it has no business here.
    if (getentropy(secret->data(), secret->size()) != 0) std::abort();
    return secret;
  }();
  return *kSecret;
}

// In a time that tells nothing of where they differ.
bool BeginsWithSecret(absl::string_view value) {
  const std::string& secret = ProcessSecret();
  if (value.size() < secret.size()) return false;
  int difference = 0;
  for (size_t i = 0; i < secret.size(); ++i) difference |= value[i] ^ secret[i];
  return difference == 0;
}

// Of the certificate that whoever calls has shown.
std::string CertificateNameOf(const grpc::CallbackServerContext& call) {
  const auto& metadata = call.client_metadata();
  const auto named = metadata.find(kCertificateMetadata);
  // gRPC tells nothing of its own by which a call within the process is known.
  if (named != metadata.end() && BeginsWithSecret(ToView(named->second))) {
    return std::string(ToView(named->second).substr(ProcessSecret().size()));
  }
  return CertificateNameOf(*call.auth_context());
}

bool IsAllZero(absl::string_view text) {
  return text.find_first_not_of('0') == absl::string_view::npos;
}

bool HasDeadline(const grpc::CallbackServerContext& call) {
  return call.deadline() != std::chrono::system_clock::time_point::max();
}

}  // namespace

std::string CertificateMetadata(absl::string_view name) {
  return absl::StrCat(ProcessSecret(), name);
}

Caller CallerReader::Read(const grpc::CallbackServerContext& call) const {
  Caller caller;
  caller.deadline = DeadlineOf(call);
  const auto& metadata = call.client_metadata();
  const auto traced = metadata.find(kTraceparent);
  if (traced != metadata.end()) {
    caller.trace_id = TraceIdOf(ToView(traced->second));
  }
  if (authenticator_ == nullptr) return caller;
  auto tenant = Identify(call);
  if (tenant.ok()) {
    caller.tenant = *std::move(tenant);
  } else {
    caller.status = tenant.status();
  }
  return caller;
}

Caller CallerReader::ReadStream(const grpc::CallbackServerContext& call) const {
  Caller caller = Read(call);
  if (!HasDeadline(call)) caller.deadline = absl::InfiniteFuture();
  return caller;
}

std::function<absl::StatusOr<Tenant>()> CallerReader::IdentifyLater(
    const grpc::CallbackServerContext& call) const {
  if (authenticator_ == nullptr || authenticator_->version() == 0) {
    return nullptr;
  }
  // 0: not identified yet.
  return [this, &call, version = uint64_t{0},
          last = absl::StatusOr<Tenant>(Tenant())]() mutable {
    // Before what it is of: a later one is seen the next time.
    const uint64_t now = authenticator_->version();
    if (now != version) {
      version = now;
      last = Identify(call);
    }
    return last;
  };
}

absl::StatusOr<Tenant> CallerReader::Identify(
    const grpc::CallbackServerContext& call) const {
  ShownCredentials shown;
  const auto [first, last] = call.client_metadata().equal_range(kAuthorization);
  if (first != last) {
    if (std::next(first) != last) {
      return absl::UnauthenticatedError(
          "the metadata \"authorization\" stands twice in one call");
    }
    shown.authorization = ToView(first->second);
  }
  std::string certificate_name;
  if (authenticator_->reads_certificates()) {
    certificate_name = CertificateNameOf(call);
    shown.certificate_name = certificate_name;
  }
  return authenticator_->Identify(shown);
}

absl::Time CallerReader::DeadlineOf(
    const grpc::CallbackServerContext& call) const {
  const absl::Time now = clock_.Now();
  if (!HasDeadline(call)) return now + default_timeout_;
  return now +
         absl::FromChrono(call.deadline() - std::chrono::system_clock::now());
}

std::string TraceIdOf(absl::string_view traceparent) {
  // A later version may be longer.
  if (traceparent.size() < kVersion00Size) return "";
  const absl::string_view version = traceparent.substr(0, 2);
  const absl::string_view trace_id =
      traceparent.substr(kTraceIdBegin, kTraceIdSize);
  constexpr size_t kParentIdBegin = kTraceIdBegin + kTraceIdSize + 1;
  const absl::string_view parent_id =
      traceparent.substr(kParentIdBegin, kParentIdSize);
  constexpr size_t kFlagsBegin = kParentIdBegin + kParentIdSize + 1;
  const absl::string_view flags = traceparent.substr(kFlagsBegin, 2);
  const bool separated = traceparent[kTraceIdBegin - 1] == '-' &&
                         traceparent[kParentIdBegin - 1] == '-' &&
                         traceparent[kFlagsBegin - 1] == '-';
  const bool ended = traceparent.size() == kVersion00Size ||
                     (version != "00" && traceparent[kVersion00Size] == '-');
  if (!separated || !ended || version == "ff" || !IsLowerHex(version) ||
      !IsLowerHex(trace_id) || !IsLowerHex(parent_id) || !IsLowerHex(flags) ||
      IsAllZero(trace_id) || IsAllZero(parent_id)) {
    return "";
  }
  return std::string(trace_id);
}

}  // namespace attn
