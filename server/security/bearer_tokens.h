// Tokens, and the tenants they stand for.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/batching/tenant_quota.h"
#include "server/security/token_digest.h"

namespace attn {

// Does not change once it is made; then thread-safe.
class BearerTokens {
 public:
  // The tenant of that name, made if there is none. The reference is good until
  // the next call.
  Tenant& AddTenant(const std::string& name);
  // Calls with this token are the tenant's.
  void AddToken(const TokenDigest& token, const std::string& tenant);
  // So are calls over a connection whose client certificate has its name.
  void AddCertificate(const std::string& tenant);

  // Null: nobody's. Compares with every token, whichever fits.
  const Tenant* FindByToken(absl::string_view token) const;
  const Tenant* FindByCertificate(const std::string& tenant) const;

  size_t tenants() const { return tenants_.size(); }
  size_t tokens() const { return tokens_.size(); }
  bool empty() const { return tenants_.empty(); }

  // Everybody on the machine may read the file.
  bool open_to_all = false;

  bool operator==(const BearerTokens&) const = default;

 private:
  struct Holder {
    TokenDigest token;
    size_t tenant;
    bool operator==(const Holder&) const = default;
  };

  std::vector<Tenant> tenants_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, size_t> by_certificate_;
  std::vector<Holder> tokens_;
};

}  // namespace attn
