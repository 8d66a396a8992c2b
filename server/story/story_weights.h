// The weights of the story model, as its file has them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

// Sizes of a decoder-only transformer whose heads share `width` evenly.
struct StoryShape {
  int64_t width = 0;
  int64_t feed_forward = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocabulary = 0;
  int64_t longest_text = 0;  // in tokens

  int64_t head_dim() const { return width / heads; }
};

// A matrix [outputs, inputs], kept column by column: so the product's innermost
// loop runs over outputs that do not wait for each other. Immutable once made,
// and thread-safe then.
class StoryMatrix {
 public:
  StoryMatrix() = default;
  // `rows` holds one row of `inputs` elements for each output.
  StoryMatrix(int64_t outputs, int64_t inputs, const std::vector<float>& rows);

  // x is [n, inputs]; gives [n, outputs] with
  // y[i][r] = sum over c of matrix[r][c] x[i][c].
  std::vector<float> Times(const std::vector<float>& x) const;

 private:
  int64_t outputs_ = 0;
  int64_t inputs_ = 0;
  std::vector<float> columns_;  // [inputs, outputs]
};

struct StoryLayerWeights {
  std::vector<float> attention_gain;     // [width]
  StoryMatrix query;                     // [width, width]
  StoryMatrix key;                       // [kv_heads * head_dim, width]
  StoryMatrix value;                     // [kv_heads * head_dim, width]
  StoryMatrix attention_output;          // [width, width]
  std::vector<float> feed_forward_gain;  // [width]
  StoryMatrix gate;                      // [feed_forward, width]
  StoryMatrix down;                      // [width, feed_forward]
  StoryMatrix up;                        // [feed_forward, width]
};

struct StoryWeights {
  StoryShape shape;
  std::vector<float> embedding;  // [vocabulary, width]
  std::vector<StoryLayerWeights> layers;
  std::vector<float> final_gain;  // [width]
  StoryMatrix output;             // the embedding as a matrix
};

// Reads the layout that model/README.md describes. INVALID_ARGUMENT names what
// is wrong; memory taken is bounded by a small multiple of the bytes given.
absl::StatusOr<StoryWeights> ParseStoryWeights(absl::string_view bytes);

}  // namespace attn
