#include "server/batching/admission.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/batching/refusal.h"

namespace attn {
namespace {

// Longer than any server drains.
constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);

}  // namespace

Admission::Permit& Admission::Permit::operator=(Permit&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  admission_ = std::exchange(other.admission_, nullptr);
  account_ = std::exchange(other.account_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

absl::Status Admission::Permit::Grow(int64_t bytes) {
  absl::Status booked = admission_->Grow(account_, bytes);
  if (booked.ok()) bytes_ += bytes;
  return booked;
}

void Admission::Permit::Leave() {
  if (admission_ == nullptr) return;
  std::exchange(admission_, nullptr)->Release(account_, bytes_);
}

absl::StatusOr<Admission::Permit> Admission::Admit(int64_t bytes,
                                                   absl::Time deadline,
                                                   const Tenant& tenant) {
  if (deadline <= clock_.Now()) {
    return Refuse(Refusal::kDeadlineExpired,
                  "the deadline had passed when the request arrived");
  }
  MutexLock lock(mutex_);
  if (!open_) {
    return Refuse(Refusal::kDraining, was_open_ ? "the server is stopping"
                                                : "the server is starting");
  }
  if (requests_ >= options_.max_concurrent_requests) {
    return Refuse(Refusal::kQueueFull,
                  absl::StrCat(requests_,
                               " requests are in flight, as many as "
                               "--max-concurrent-requests=",
                               options_.max_concurrent_requests, " allows"));
  }
  TenantLedger::Account* account = nullptr;
  if (tenant.quota.limits()) {
    const auto entered = tenants_.Enter(tenant, bytes);
    if (!entered.ok()) return entered.status();
    account = *entered;
  }
  absl::Status booked = Book(bytes);
  if (!booked.ok()) {
    if (account != nullptr) tenants_.Leave(*account, bytes);
    return booked;
  }
  ++requests_;
  return Permit(this, account, bytes);
}

absl::Status Admission::Grow(TenantLedger::Account* account, int64_t bytes) {
  MutexLock lock(mutex_);
  if (account != nullptr) {
    absl::Status grown = TenantLedger::Grow(*account, bytes);
    if (!grown.ok()) return grown;
  }
  absl::Status booked = Book(bytes);
  if (!booked.ok() && account != nullptr) {
    TenantLedger::Shrink(*account, bytes);
  }
  return booked;
}

absl::Status Admission::Book(int64_t bytes) {
  if (bytes > options_.max_inflight_bytes) {
    return Refuse(Refusal::kTooLarge,
                  absl::StrCat("the request needs ", bytes,
                               " bytes, more than "
                               "--max-inflight-bytes=",
                               options_.max_inflight_bytes));
  }
  if (bytes > options_.max_inflight_bytes - bytes_) {
    return Refuse(Refusal::kMemory,
                  absl::StrCat("the request needs ", bytes,
                               " bytes; requests "
                               "in flight hold ",
                               bytes_, " of --max-inflight-bytes=",
                               options_.max_inflight_bytes));
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

void Admission::Release(TenantLedger::Account* account, int64_t bytes) {
  MutexLock lock(mutex_);
  if (account != nullptr) tenants_.Leave(*account, bytes);
  bytes_ -= bytes;
  if (--requests_ == 0) empty_.NotifyAll();
}

void Admission::Open() {
  MutexLock lock(mutex_);
  open_ = true;
  was_open_ = true;
}

void Admission::Close() {
  MutexLock lock(mutex_);
  open_ = false;
}

bool Admission::WaitUntilEmpty(absl::Duration timeout) {
  // A steady clock cannot count to infinity.
  const absl::Duration bounded = std::min(timeout, kLongestWait);
  const auto end =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(bounded);
  MutexLock lock(mutex_);
  while (requests_ > 0) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    empty_.WaitFor(mutex_, left);
  }
  return true;
}

int64_t Admission::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

int64_t Admission::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

TenantLedger::Account Admission::HeldBy(const std::string& tenant) const {
  MutexLock lock(mutex_);
  const TenantLedger::Account* account = tenants_.Find(tenant);
  return account == nullptr ? TenantLedger::Account() : *account;
}

}  // namespace attn
