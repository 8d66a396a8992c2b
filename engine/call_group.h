// Short calls that go to the workers together.
#pragma once

#include <memory>
#include <vector>

#include "engine/call_task.h"
#include "engine/runtime/worker_pool.h"

namespace attn {

// Each job is a whole call, which ends with that job: one hand-over for all of
// them, and no call waits for another to end. The same bits as alone, since a
// call sees nothing of the others. Thread-safety as of TileTask.
class CallGroup final : public TileTask {
 public:
  CallGroup(std::vector<std::unique_ptr<CallTask>> calls, const Clock& clock);

  int phase_count() const override { return 1; }
  int64_t job_count(int) const override {
    return static_cast<int64_t>(calls_.size());
  }
  // None of the group's: each call reserves its own in RunToEnd(), so that one
  // of too much fails alone.
  size_t scratch_bytes() const override { return 0; }
  // Of none: each call has its own, which its job looks at.
  const Cancellation& cancellation() const override { return never_; }

  void Begin() override {}
  void RunJob(int phase, int64_t job, Arena& arena) override;
  void Done(absl::Status status) override;

 private:
  // Null: has ended.
  std::vector<std::unique_ptr<CallTask>> calls_;
  const Cancellation never_;
};

}  // namespace attn
