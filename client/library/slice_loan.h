// Memory of a caller's that the transport sends from, until it lets go of it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/time/time.h"
#include "grpcpp/support/slice.h"

namespace attn {

// Counts slices. Copies count together. Thread-safe.
class SliceLoan {
 public:
  // The memory must stay as it is until the loan is over.
  grpc::Slice Lend(const std::byte* data, size_t size) const;

  // Waits until no slice is left. False: `timeout` passed.
  bool WaitUntilOver(absl::Duration timeout) const;

 private:
  struct Count {
    std::mutex mutex;
    std::condition_variable over;
    int64_t slices = 0;
  };
  static void Return(void* count);

  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace attn
