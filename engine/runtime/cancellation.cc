#include "engine/runtime/cancellation.h"

namespace attn {

absl::Status Cancellation::Check() const {
  if (cancelled_.load(std::memory_order_relaxed)) {
    return absl::CancelledError("the call was cancelled");
  }
  if (deadline_ != absl::InfiniteFuture() && clock_.Now() >= deadline_) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  return absl::OkStatus();
}

}  // namespace attn
