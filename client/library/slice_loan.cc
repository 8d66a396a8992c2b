#include "client/library/slice_loan.h"

#include <algorithm>

namespace attn {
namespace {

// A condition variable's clock cannot count to infinity.
constexpr absl::Duration kLongestWait = absl::Hours(24);

}  // namespace

grpc::Slice SliceLoan::Lend(const std::byte* data, size_t size) const {
  {
    const std::lock_guard<std::mutex> lock(count_->mutex);
    ++count_->slices;
  }
  // gRPC never writes to a slice that is sent.
  return {const_cast<std::byte*>(data), size, &Return,
          new std::shared_ptr<Count>(count_)};
}

void SliceLoan::Return(void* count) {
  const std::unique_ptr<std::shared_ptr<Count>> owned(
      static_cast<std::shared_ptr<Count>*>(count));
  Count& counted = **owned;
  const std::lock_guard<std::mutex> lock(counted.mutex);
  if (--counted.slices == 0) counted.over.notify_all();
}

bool SliceLoan::WaitUntilOver(absl::Duration timeout) const {
  std::unique_lock<std::mutex> lock(count_->mutex);
  return count_->over.wait_for(
      lock, absl::ToChronoNanoseconds(std::min(timeout, kLongestWait)),
      [this] { return count_->slices == 0; });
}

}  // namespace attn
