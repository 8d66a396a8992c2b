#include "client/library/client_security.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/library/server_address.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kSystemRoots[] = "system";
constexpr char kCertificateHead[] = "-----BEGIN CERTIFICATE-----";
constexpr char kKeyTail[] = "PRIVATE KEY-----";

absl::StatusOr<std::string> ReadText(absl::string_view field,
                                     const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.is_open() && !file.bad()) return text;
  return FieldError(
      field,
      absl::StrCat(path, " (", std::generic_category().message(errno), ")"),
      "a file that can be read");
}

// A PEM file with `mark` in it.
absl::StatusOr<std::string> ReadPem(absl::string_view field,
                                    const std::string& path,
                                    absl::string_view mark) {
  auto text = ReadText(field, path);
  if (!text.ok() || absl::StrContains(*text, mark)) return text;
  return FieldError(field, path, absl::StrCat("a PEM file with ", mark));
}

absl::Status CheckTogether(const ClientSecurity& security) {
  if (security.tls_cert.empty() != security.tls_key.empty()) {
    return FieldError(security.tls_cert.empty() ? "tls_cert" : "tls_key",
                      "nothing", "a file, as the other of the two is given");
  }
  if (security.tls_ca.empty()) {
    for (const auto& [field, value] :
         {std::pair("tls_cert", &security.tls_cert),
          std::pair("tls_server_name", &security.tls_server_name)}) {
      if (value->empty()) continue;
      return FieldError("tls_ca", "nothing",
                        absl::StrCat("a file, as ", field, " is given"));
    }
  }
  if (!security.token.empty() && !security.token_file.empty()) {
    return FieldError("token_file", "a token too", "one of the two");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const ClientSecurity& security, const std::string& address) {
  if (security.tls_ca.empty() || NamesUnixSocket(address)) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions files;
  if (security.tls_ca != kSystemRoots) {
    auto roots = ReadPem("tls_ca", security.tls_ca, kCertificateHead);
    if (!roots.ok()) return roots.status();
    files.pem_root_certs = *std::move(roots);
  }
  if (!security.tls_cert.empty()) {
    auto chain = ReadPem("tls_cert", security.tls_cert, kCertificateHead);
    if (!chain.ok()) return chain.status();
    auto key = ReadPem("tls_key", security.tls_key, kKeyTail);
    if (!key.ok()) return key.status();
    files.pem_cert_chain = *std::move(chain);
    files.pem_private_key = *std::move(key);
  }
  return grpc::SslCredentials(files);
}

// Empty: there is none. What is no token would end the process in gRPC.
absl::StatusOr<std::string> TokenOf(const ClientSecurity& security) {
  const bool from_file = !security.token_file.empty();
  std::string token = security.token;
  if (from_file) {
    auto text = ReadText("token_file", security.token_file);
    if (!text.ok()) return text.status();
    token = std::string(absl::StripAsciiWhitespace(*text));
  }
  const bool visible = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!visible || (from_file && token.empty())) {
    return FieldError(from_file ? "token_file" : "token",
                      from_file ? security.token_file : "something else",
                      "one token of visible ASCII");
  }
  return token;
}

}  // namespace

absl::StatusOr<ChannelSecurity> OpenSecurity(const ClientSecurity& security,
                                             const std::string& address) {
  absl::Status together = CheckTogether(security);
  if (!together.ok()) return together;
  auto credentials = CredentialsOf(security, address);
  if (!credentials.ok()) return credentials.status();
  auto token = TokenOf(security);
  if (!token.ok()) return token.status();
  ChannelSecurity opened;
  opened.credentials = *std::move(credentials);
  if (token->empty()) return opened;
  const bool plain = security.tls_ca.empty() || NamesUnixSocket(address);
  if (plain && !IsThisMachine(address) && !security.allow_plaintext_token) {
    return FieldError("tls_ca", "nothing",
                      absl::StrCat("a file: the token would cross the network "
                                   "to ",
                                   address,
                                   " in plain text (allow_plaintext_token "
                                   "permits it)"));
  }
  opened.authorization = absl::StrCat("Bearer ", *token);
  opened.plain_token = plain && IsThisMachine(address);
  return opened;
}

}  // namespace attn
