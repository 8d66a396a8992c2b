// The gate: how many requests, and how many bytes of theirs, are inside.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/runtime/clock.h"
#include "engine/runtime/mutex.h"
#include "server/batching/tenant_quota.h"

namespace attn {

struct AdmissionOptions {
  // Received, waiting or running.
  int64_t max_concurrent_requests = 1024;
  // Payloads, responses and scratch of all of them together.
  int64_t max_inflight_bytes = int64_t{1} << 30;
};

// Closed until Open(): a server lets nobody in before it is warm. Thread-safe.
class Admission {
 public:
  // A request's place inside. Leaves when destroyed. Move-only;
  // thread-compatible.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept { *this = std::move(other); }
    Permit& operator=(Permit&& other) noexcept;
    ~Permit() { Leave(); }

    // Books more. RESOURCE_EXHAUSTED, and nothing booked, if it does not fit.
    absl::Status Grow(int64_t bytes);
    int64_t bytes() const { return bytes_; }

   private:
    friend class Admission;
    Permit(Admission* admission, TenantLedger::Account* account, int64_t bytes)
        : admission_(admission), account_(account), bytes_(bytes) {}
    void Leave();

    Admission* admission_ = nullptr;
    // Null: its tenant has no quota.
    TenantLedger::Account* account_ = nullptr;
    int64_t bytes_ = 0;
  };

  // `clock` must outlive the gate, the gate its permits.
  Admission(const AdmissionOptions& options, const Clock& clock)
      : options_(options), clock_(clock) {}

  // Refuses, with a reason (refusal.h), what is late, too large, too much, more
  // than `tenant` may hold, or comes to a closed gate.
  absl::StatusOr<Permit> Admit(int64_t bytes, absl::Time deadline,
                               const Tenant& tenant = {});

  void Open();
  // Refuses newcomers; those inside stay.
  void Close();
  // Waits until nobody is inside. False: `timeout` passed.
  bool WaitUntilEmpty(absl::Duration timeout);

  int64_t requests() const;
  int64_t bytes() const;
  // What a tenant with a quota holds; zeros for one that has nothing inside.
  TenantLedger::Account HeldBy(const std::string& tenant) const;

 private:
  absl::Status Book(int64_t bytes) ATTN_REQUIRES(mutex_);
  absl::Status Grow(TenantLedger::Account* account, int64_t bytes);
  void Release(TenantLedger::Account* account, int64_t bytes);

  const AdmissionOptions options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar empty_;
  bool open_ ATTN_GUARDED_BY(mutex_) = false;
  bool was_open_ ATTN_GUARDED_BY(mutex_) = false;
  int64_t requests_ ATTN_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ATTN_GUARDED_BY(mutex_) = 0;
  TenantLedger tenants_ ATTN_GUARDED_BY(mutex_);
};

}  // namespace attn
