// A Llama-type transformer whose attention is computed elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attn {

struct LlamaSizes {
  int64_t dim = 0;
  int64_t hidden_dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocabulary = 0;
  int64_t longest_text = 0;  // in tokens

  int64_t head_dim() const { return dim / heads; }
  int64_t kv_dim() const { return head_dim() * kv_heads; }
};

// Of the new tokens in one layer, row-major: q [tokens, heads, head_dim], k and
// v [tokens, kv_heads, head_dim]; q and k before the rotary transform.
struct LlamaRows {
  int layer = 0;
  int64_t tokens = 0;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

// Appends k and v to those that the layer has and gives what q sees, [tokens,
// heads, head_dim]: rotary with base 10000 on the pairs (2i, 2i + 1), each
// token over those up to itself, scale 1 / sqrt(head_dim), query head h with KV
// head h / (heads / kv_heads).
using LlamaAttention =
    std::function<absl::StatusOr<std::vector<float>>(const LlamaRows&)>;

// Weights in the first layout of the llama2.c project (Karpathy 2023): seven
// int32, then float32 tensors. Immutable; thread-safe.
class LlamaModel {
 public:
  // INVALID_ARGUMENT names what is wrong with the bytes of a file.
  static absl::StatusOr<LlamaModel> Parse(absl::string_view file);

  const LlamaSizes& sizes() const { return sizes_; }

  // Reads the next tokens of a text and gives the logits of the one behind
  // them, [vocabulary]. Calls `attend` once for each layer in order; its error
  // ends the call. INVALID_ARGUMENT names "tokens" if there are none, or one
  // that the vocabulary does not have.
  absl::StatusOr<std::vector<float>> Read(absl::Span<const int32_t> tokens,
                                          const LlamaAttention& attend) const;

 private:
  class Reader;

  // [inputs, outputs], so that the inner loop of a product runs over outputs.
  struct Matrix {
    int64_t outputs = 0;
    std::vector<float> values;

    // x is [n, inputs]; gives [n, outputs].
    std::vector<float> Times(absl::Span<const float> x) const;
  };
  struct Layer {
    std::vector<float> attention_norm;
    Matrix q;
    Matrix k;
    Matrix v;
    Matrix output;
    std::vector<float> feed_forward_norm;
    Matrix gate;
    Matrix down;
    Matrix up;
  };

  // What a layer's SwiGLU adds to the rows of x.
  static std::vector<float> FeedForward(const Layer& layer,
                                        const std::vector<float>& x);

  LlamaSizes sizes_;
  std::vector<float> embedding_;  // [vocabulary, dim]
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
  Matrix classifier_;
};

}  // namespace attn
