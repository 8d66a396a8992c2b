// Who a caller is, by what it shows.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/batching/tenant_quota.h"
#include "server/security/bearer_tokens.h"
#include "server/security/reloadable.h"

namespace attn {

using TokenStore = Reloadable<BearerTokens>;

// Borrowed; empty where the caller shows nothing.
struct ShownCredentials {
  // Of the metadata `authorization`.
  absl::string_view authorization{};
  // Of a verified client certificate: its first URI, else its first DNS name,
  // else its common name.
  absl::string_view certificate_name{};
};

struct AuthenticatorOptions {
  // Null: no token is asked for. Must outlive the authenticator.
  const TokenStore* tokens = nullptr;
  // Clients show certificates.
  bool certificates = false;
  // Of tenants whom the token file does not name.
  TenantQuota default_quota{};
};

// Thread-safe.
class Authenticator {
 public:
  explicit Authenticator(const AuthenticatorOptions& options)
      : options_(options) {}

  bool reads_certificates() const { return options_.certificates; }

  // Grows when Identify() may answer otherwise than before; 0: it never does.
  uint64_t version() const {
    return options_.tokens == nullptr ? 0 : options_.tokens->version();
  }

  // With a token file: the tenant of the bearer token (RFC 6750, section 2.1);
  // without a token, the certificate's, if the file lists it. Else: the
  // certificate's tenant, or the anonymous one.
  // UNAUTHENTICATED, in words that repeat nothing of what was shown.
  absl::StatusOr<Tenant> Identify(const ShownCredentials& shown) const;

 private:
  absl::StatusOr<Tenant> ByTokenFile(const ShownCredentials& shown) const;

  const AuthenticatorOptions options_;
};

}  // namespace attn
