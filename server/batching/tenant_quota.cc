#include "server/batching/tenant_quota.h"

#include "absl/strings/str_cat.h"
#include "server/batching/refusal.h"

namespace attn {
namespace {

std::string NameOf(const Tenant& tenant) {
  return tenant.name.empty() ? "the anonymous tenant"
                             : absl::StrCat("tenant \"", tenant.name, "\"");
}

absl::Status CheckRequests(const TenantLedger::Account& account) {
  const int64_t most = account.tenant.quota.max_requests;
  if (most == 0 || account.requests < most) return absl::OkStatus();
  return Refuse(Refusal::kTenantQuota,
                absl::StrCat(NameOf(account.tenant), " has ", account.requests,
                             " requests in flight, its quota is "
                             "max-requests=",
                             most));
}

absl::Status CheckBytes(const TenantLedger::Account& account, int64_t bytes) {
  const int64_t most = account.tenant.quota.max_inflight_bytes;
  if (most == 0 || bytes <= most - account.bytes) return absl::OkStatus();
  const bool never_fits = bytes > most;
  return Refuse(
      never_fits ? Refusal::kTooLarge : Refusal::kTenantQuota,
      absl::StrCat("the request needs ", bytes, " bytes; ",
                   NameOf(account.tenant), " holds ", account.bytes,
                   " in flight, its quota is max-inflight-bytes=", most));
}

}  // namespace

absl::StatusOr<TenantLedger::Account*> TenantLedger::Enter(const Tenant& tenant,
                                                           int64_t bytes) {
  Account& account = accounts_[tenant.name];
  account.tenant = tenant;
  absl::Status status = CheckRequests(account);
  if (status.ok()) status = CheckBytes(account, bytes);
  if (!status.ok()) {
    if (account.requests == 0) accounts_.erase(tenant.name);
    return status;
  }
  ++account.requests;
  account.bytes += bytes;
  return &account;
}

absl::Status TenantLedger::Grow(Account& account, int64_t bytes) {
  absl::Status status = CheckBytes(account, bytes);
  if (status.ok()) account.bytes += bytes;
  return status;
}

void TenantLedger::Shrink(Account& account, int64_t bytes) {
  account.bytes -= bytes;
}

void TenantLedger::Leave(Account& account, int64_t bytes) {
  account.bytes -= bytes;
  if (--account.requests > 0) return;
  const std::string name = account.tenant.name;
  accounts_.erase(name);
}

const TenantLedger::Account* TenantLedger::Find(
    const std::string& tenant) const {
  const auto found = accounts_.find(tenant);
  return found == accounts_.end() ? nullptr : &found->second;
}

}  // namespace attn
