// A request as the batcher sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attn {

// Which of those that wait goes first.
enum class Priority : uint8_t { kHigh, kNormal, kLow };
inline constexpr int kPriorities = 3;

// One request on its way to the engine. The batcher starts it, alone or with
// others (BatcherOptions::start_together), or refuses it: exactly one of them,
// exactly once, without holding a lock.
class BatchItem {
 public:
  virtual ~BatchItem() = default;

  // Its share of the token budget, >= 0; does not change.
  virtual int64_t tokens() const = 0;
  // Whether Start() takes no longer than to wait and be woken: it then never
  // waits, and is of no lane and no batch.
  virtual bool immediate() const = 0;
  virtual Priority priority() const = 0;
  // When it must have ended, on the batcher's clock.
  virtual absl::Time deadline() const = 0;
  // Not OK: it was cancelled or is late, and need not start.
  virtual absl::Status Check() const = 0;
  // On the thread that scheduled it. Must lead to one Batcher::Finished(), from
  // any thread, perhaps before this returns.
  virtual void Start() = 0;
  virtual void Refuse(absl::Status status) = 0;
};

using BatchItems = std::vector<std::shared_ptr<BatchItem>>;

}  // namespace attn
