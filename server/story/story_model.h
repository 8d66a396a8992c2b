// A transformer small enough to look into: it reads a text and shows what each
// of its heads is given. The attention itself is not computed here: the caller
// does that, with the engine, so that what is shown is what the server
// computes.
//
//   const auto model = StoryModel::Parse(StoryWeightsFile());
//   const auto reading = model->Read(ids, attend);
//   reading->layers[1].q;  // layer 1's queries before the rotary transform
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/story/story_weights.h"

namespace attn {

// What the attention of one layer is given: row-major float32, q
// [heads, tokens, head_dim], k and v [kv_heads, tokens, head_dim]; q and k
// before the rotary transform.
struct StoryQkv {
  int64_t layer = 0;
  int64_t tokens = 0;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

// Computes a layer's output, [heads, tokens, head_dim]: q and k turned by
// rotary positions 0, 1, ... with base 10000 in neighbouring pairs, causal,
// scale 1 / sqrt(head_dim), query head h with key/value head
// h / (heads / kv_heads). Its error ends the reading and is handed on.
using StoryAttend =
    std::function<absl::StatusOr<std::vector<float>>(const StoryQkv&)>;

struct StoryReading {
  std::vector<StoryQkv> layers;
  // [tokens, width]: each token's state behind the last layer and norm.
  std::vector<float> hidden;
};

// Immutable; thread-safe.
class StoryModel {
 public:
  // INVALID_ARGUMENT names what is wrong in a file of model/README.md's layout.
  static absl::StatusOr<StoryModel> Parse(absl::string_view bytes);

  const StoryShape& shape() const { return weights_.shape; }

  // Calls `attend` once for each layer, in order, on this thread.
  // INVALID_ARGUMENT names "ids" unless there are 1 to longest_text of them,
  // each 0 to vocabulary - 1; INTERNAL if `attend` gives another shape.
  absl::StatusOr<StoryReading> Read(absl::Span<const int32_t> ids,
                                    const StoryAttend& attend) const;

  // [tokens, vocabulary]: row i has the logits of the token after token i.
  std::vector<float> Logits(const StoryReading& reading) const;

 private:
  explicit StoryModel(StoryWeights weights);

  StoryWeights weights_;
};

}  // namespace attn
