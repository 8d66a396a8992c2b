// How much of the server one tenant may hold at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attn {

// 0: no quota. A value.
struct TenantQuota {
  // Received, waiting or running.
  int64_t max_requests = 0;
  // Payloads, responses and scratch of all of them together.
  int64_t max_inflight_bytes = 0;

  bool limits() const { return max_requests > 0 || max_inflight_bytes > 0; }
  bool operator==(const TenantQuota&) const = default;
};

// Whose request it is. A value.
struct Tenant {
  // Empty: anonymous.
  std::string name;
  TenantQuota quota;

  bool operator==(const Tenant&) const = default;
};

// What each tenant holds. Only tenants with something inside have an account,
// so that its size is bounded by the requests inside, whatever names come.
//
// Invariant: an account's requests and bytes are the sums over what entered
// and has not left. Thread-compatible; Admission guards it.
class TenantLedger {
 public:
  struct Account {
    // As of the tenant's last request.
    Tenant tenant;
    int64_t requests = 0;
    int64_t bytes = 0;
  };

  // Books a request of `bytes`; to be left once. RESOURCE_EXHAUSTED with a
  // reason (refusal.h), and nothing booked, if the quota forbids it. The
  // account stays until the last of its requests left.
  absl::StatusOr<Account*> Enter(const Tenant& tenant, int64_t bytes);
  // Books more for a request that is inside, or refuses likewise.
  static absl::Status Grow(Account& account, int64_t bytes);
  // Gives bytes back that Grow() booked.
  static void Shrink(Account& account, int64_t bytes);
  void Leave(Account& account, int64_t bytes);

  // Null: nothing of that tenant is inside.
  const Account* Find(const std::string& tenant) const;
  size_t accounts() const { return accounts_.size(); }

 private:
  std::unordered_map<std::string, Account> accounts_;
};

}  // namespace attn
