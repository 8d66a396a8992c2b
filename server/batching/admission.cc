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
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

absl::Status Admission::Permit::Grow(int64_t bytes) {
  MutexLock lock(admission_->mutex_);
  absl::Status booked = admission_->Book(bytes);
  if (booked.ok()) bytes_ += bytes;
  return booked;
}

void Admission::Permit::Leave() {
  if (admission_ == nullptr) return;
  std::exchange(admission_, nullptr)->Release(bytes_);
}

absl::StatusOr<Admission::Permit> Admission::Admit(int64_t bytes,
                                                   absl::Time deadline) {
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
  absl::Status booked = Book(bytes);
  if (!booked.ok()) return booked;
  ++requests_;
  return Permit(this, bytes);
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

void Admission::Release(int64_t bytes) {
  MutexLock lock(mutex_);
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

}  // namespace attn
