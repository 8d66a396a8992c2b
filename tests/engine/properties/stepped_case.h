// A case as a session of one layer steps it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cache/kv_sequence.h"
#include "engine/cache/step_spec.h"
#include "engine/engine.h"
#include "tests/testing/variants/variant_run.h"

namespace attn::testing {

// Keys are prepared and kept in blocks, windows are let go, and each step is a
// call of its own, by the kernel that the engine chooses. Copies are forks.
// Thread-compatible.
class SteppedCase {
 public:
  // Of a case of one batch entry, its tensors in `dtype`, k and v kept in
  // `kept`. Fails as StepSpec::Make().
  static absl::StatusOr<SteppedCase> Make(const oracle::VariantCase& call,
                                          DType dtype = DType::kF32,
                                          DType kept = DType::kF32);

  // Tokens [begin, begin + count) of the case come next, wherever the session
  // is: their output [1, Hq, count, d_v]. Empty if the step fails, which fails
  // the test.
  std::vector<double> Step(int64_t begin, int64_t count);
  absl::Status Rollback(int64_t position);
  // All tokens of the case as one call of the engine, without a session.
  std::vector<double> WholeCall() const;

  const KvSequence& sequence() const { return sequence_; }

 private:
  // What forks share.
  struct Session;
  explicit SteppedCase(std::shared_ptr<Session> session);

  std::shared_ptr<Session> session_;
  KvSequence sequence_;
};

}  // namespace attn::testing
