#include "server/security/bearer_tokens.h"

namespace attn {

Tenant& BearerTokens::AddTenant(const std::string& name) {
  const auto [found, is_new] = by_name_.emplace(name, tenants_.size());
  if (is_new) tenants_.push_back({.name = name, .quota = {}});
  return tenants_[found->second];
}

void BearerTokens::AddToken(const TokenDigest& token,
                            const std::string& tenant) {
  AddTenant(tenant);
  tokens_.push_back({token, by_name_.at(tenant)});
}

void BearerTokens::AddCertificate(const std::string& tenant) {
  AddTenant(tenant);
  by_certificate_.emplace(tenant, by_name_.at(tenant));
}

const Tenant* BearerTokens::FindByToken(absl::string_view token) const {
  const TokenDigest digest = DigestOf(token);
  const Tenant* found = nullptr;
  for (const Holder& holder : tokens_) {
    if (SameDigest(digest, holder.token)) found = &tenants_[holder.tenant];
  }
  return found;
}

const Tenant* BearerTokens::FindByCertificate(const std::string& tenant) const {
  const auto found = by_certificate_.find(tenant);
  return found == by_certificate_.end() ? nullptr : &tenants_[found->second];
}

}  // namespace attn
