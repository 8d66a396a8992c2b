// What the spec of a session is for its steps: keys were prepared when they
// were stored, and positions go on from one step to the next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cache/kv_layout.h"
#include "engine/cache/kv_sequence.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/tensor_view.h"
#include "engine/transforms/transform.h"

namespace attn {

// Which keys no query at a position or behind it sees: [keep, position - left).
// A value.
struct KeyWindow {
  bool bounded = false;
  int64_t left = 0;
  int64_t keep = 0;

  // Tokens in front of a query that it may see, as KvSequence::Truncate() takes
  // it: 0 is all of them.
  int64_t seen() const { return bounded ? std::max<int64_t>(left, 1) : 0; }
};

// Immutable but for moves; thread-safe. The inputs' memory must outlive it.
class StepSpec {
 public:
  // Checks what a plan cannot: INVALID_ARGUMENT names what has another meaning
  // in steps than in one call (step_stages.h). Of what is left, a call of all
  // tokens and steps that they are divided into give the same within the
  // kernels' tolerance, if no query sees a key behind its own: a step knows no
  // key of a later one.
  static absl::StatusOr<StepSpec> Make(AttentionSpec spec,
                                       std::vector<TensorView> inputs,
                                       const KvLayout& layout, int64_t q_heads,
                                       int64_t q_dim);

  // The spec of the whole sequence as one call.
  const AttentionSpec& whole() const { return spec_; }
  // That of queries whose first one is at `position`.
  AttentionSpec At(int64_t position) const;
  // The tensors of such a call, but for q and for the blocks themselves, when
  // there are `keys` keys.
  AttentionArgs Args(int64_t keys) const;
  // Empty if keys stay as they come. For one thread at a time; the layers of a
  // step share what it remembers of their positions. Borrows this.
  PrepareKeys preparation() const;
  const KeyWindow& window() const { return window_; }
  // As many keys as tables of angles reach: INVALID_ARGUMENT names the table.
  absl::Status CheckReach(int64_t keys) const;

 private:
  StepSpec() = default;
  absl::Status MakeTransforms(int64_t q_heads, int64_t q_dim);

  AttentionSpec spec_;
  KvLayout layout_;
  // Of a call of one key: what the transforms of keys are bound to.
  AttentionShape shape_;
  AttentionArgs args_;
  std::vector<std::shared_ptr<const Transform>> transforms_;
  KeyWindow window_;
};

}  // namespace attn
