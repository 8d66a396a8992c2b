// How the steps of one session travel.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "proto/codec/session_codec.h"

namespace attn {

// One step at a time. Thread-compatible.
class StepPath {
 public:
  using StepDone = std::function<void(absl::StatusOr<StepResult> result)>;

  // Does not wait; a stream ends by itself.
  virtual ~StepPath() = default;

  // Returns at once; calls `done` exactly once, on a thread of gRPC's, from
  // where the next Step() may be made and the path may be destroyed. A step
  // is tried once, and fails with DEADLINE_EXCEEDED if it takes longer than the
  // path's deadline.
  virtual void Step(const StepMessage& message, StepDone done) = 0;
};

// Each step is a call.
std::unique_ptr<StepPath> MakeUnarySteps(const RawChannel& channel,
                                         absl::Duration deadline);
// All go over one stream, which is opened with the first, and again after it
// broke.
std::unique_ptr<StepPath> MakeStreamedSteps(const RawChannel& channel,
                                            absl::Duration deadline);

}  // namespace attn
