#include "server/security/authenticator.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/security/tenant_name.h"

namespace attn {
namespace {

constexpr absl::string_view kScheme = "bearer ";

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(why);
}

absl::StatusOr<std::string> TenantOf(absl::string_view certificate_name) {
  std::string tenant = TenantOfCertificateName(certificate_name);
  if (tenant.empty() && !certificate_name.empty()) {
    return Refused("the name in the client certificate is too long");
  }
  return tenant;
}

}  // namespace

absl::StatusOr<Tenant> Authenticator::Identify(
    const ShownCredentials& shown) const {
  if (options_.tokens != nullptr) return ByTokenFile(shown);
  auto name = TenantOf(shown.certificate_name);
  if (!name.ok()) return name.status();
  return Tenant{.name = *std::move(name), .quota = options_.default_quota};
}

absl::StatusOr<Tenant> Authenticator::ByTokenFile(
    const ShownCredentials& shown) const {
  const std::shared_ptr<const BearerTokens> tokens = options_.tokens->Current();
  const Tenant* tenant = nullptr;
  if (shown.authorization.empty()) {
    const auto name = TenantOf(shown.certificate_name);
    if (!name.ok()) return name.status();
    tenant = tokens->FindByCertificate(*name);
    if (tenant == nullptr) {
      return Refused(
          "this server asks for a bearer token; send the metadata "
          "\"authorization: Bearer <token>\"");
    }
    return *tenant;
  }
  // The scheme is of any case (RFC 9110, section 11.1).
  if (!absl::StartsWithIgnoreCase(shown.authorization, kScheme)) {
    return Refused("the metadata \"authorization\" is not \"Bearer <token>\"");
  }
  tenant = tokens->FindByToken(
      absl::StripAsciiWhitespace(shown.authorization.substr(kScheme.size())));
  if (tenant == nullptr) return Refused("the bearer token is not a valid one");
  return *tenant;
}

}  // namespace attn
