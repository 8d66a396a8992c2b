#include "server/story/story_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// Inside of the norm's root, as in training.
constexpr double kNormEpsilon = 1e-5;

absl::Status CheckIds(absl::Span<const int32_t> ids, const StoryShape& shape) {
  if (ids.empty() || static_cast<int64_t>(ids.size()) > shape.longest_text) {
    return FieldError("ids", absl::StrCat(ids.size(), " tokens"),
                      absl::StrCat("1 to ", shape.longest_text));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= shape.vocabulary) {
      return FieldError(absl::StrCat("ids[", i, "]"), absl::StrCat(ids[i]),
                        absl::StrCat("0 to ", shape.vocabulary - 1));
    }
  }
  return absl::OkStatus();
}

std::vector<float> Embedded(absl::Span<const int32_t> ids,
                            const StoryWeights& weights) {
  std::vector<float> states;
  states.reserve(ids.size() * static_cast<size_t>(weights.shape.width));
  for (const int32_t id : ids) {
    const auto row = weights.embedding.begin() + id * weights.shape.width;
    states.insert(states.end(), row, row + weights.shape.width);
  }
  return states;
}

// Each row over the root of its mean square, times the gain.
std::vector<float> RmsNorm(const std::vector<float>& x,
                           const std::vector<float>& gain) {
  const size_t width = gain.size();
  std::vector<float> result(x.size());
  for (size_t begin = 0; begin < x.size(); begin += width) {
    double squares = 0;
    for (size_t c = 0; c < width; ++c) {
      squares += double{x[begin + c]} * double{x[begin + c]};
    }
    const double mean = squares / static_cast<double>(width);
    const auto scale = static_cast<float>(1 / std::sqrt(mean + kNormEpsilon));
    for (size_t c = 0; c < width; ++c) {
      result[begin + c] = x[begin + c] * scale * gain[c];
    }
  }
  return result;
}

// [tokens, heads, head_dim] to [heads, tokens, head_dim]; the other way round
// with the first two sizes swapped.
std::vector<float> SwapOuter(const std::vector<float>& x, int64_t outer,
                             int64_t inner, int64_t head_dim) {
  std::vector<float> result(x.size());
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      const auto from = x.begin() + (i * inner + j) * head_dim;
      std::copy(from, from + head_dim,
                result.begin() + (j * outer + i) * head_dim);
    }
  }
  return result;
}

void AddTo(std::vector<float>& states, const std::vector<float>& change) {
  for (size_t i = 0; i < states.size(); ++i) states[i] += change[i];
}

StoryQkv Project(const std::vector<float>& states,
                 const StoryLayerWeights& layer, const StoryShape& shape,
                 int64_t index) {
  const std::vector<float> x = RmsNorm(states, layer.attention_gain);
  const int64_t tokens = static_cast<int64_t>(x.size()) / shape.width;
  const auto by_head = [&](const StoryMatrix& matrix, int64_t heads) {
    return SwapOuter(matrix.Times(x), tokens, heads, shape.head_dim());
  };
  return {.layer = index,
          .tokens = tokens,
          .q = by_head(layer.query, shape.heads),
          .k = by_head(layer.key, shape.kv_heads),
          .v = by_head(layer.value, shape.kv_heads)};
}

// down(silu(gate(x)) * up(x)) of the normalised states.
std::vector<float> FeedForward(const std::vector<float>& states,
                               const StoryLayerWeights& layer) {
  const std::vector<float> x = RmsNorm(states, layer.feed_forward_gain);
  std::vector<float> gated = layer.gate.Times(x);
  const std::vector<float> up = layer.up.Times(x);
  for (size_t i = 0; i < gated.size(); ++i) {
    gated[i] = gated[i] / (1 + std::exp(-gated[i])) * up[i];
  }
  return layer.down.Times(gated);
}

}  // namespace

StoryModel::StoryModel(StoryWeights weights) : weights_(std::move(weights)) {}

absl::StatusOr<StoryModel> StoryModel::Parse(absl::string_view bytes) {
  absl::StatusOr<StoryWeights> weights = ParseStoryWeights(bytes);
  if (!weights.ok()) return weights.status();
  return StoryModel(*std::move(weights));
}

absl::StatusOr<StoryReading> StoryModel::Read(absl::Span<const int32_t> ids,
                                              const StoryAttend& attend) const {
  const StoryShape& shape = weights_.shape;
  absl::Status status = CheckIds(ids, shape);
  if (!status.ok()) return status;
  StoryReading reading;
  std::vector<float> states = Embedded(ids, weights_);
  for (const StoryLayerWeights& layer : weights_.layers) {
    reading.layers.push_back(Project(
        states, layer, shape, static_cast<int64_t>(reading.layers.size())));
    const StoryQkv& qkv = reading.layers.back();
    const absl::StatusOr<std::vector<float>> mixed = attend(qkv);
    if (!mixed.ok()) return mixed.status();
    if (mixed->size() != qkv.q.size()) {
      return absl::InternalError(absl::StrCat(
          "output of layer ", qkv.layer, "'s attention: got ", mixed->size(),
          " elements, expected ", qkv.q.size(), ", as many as q has"));
    }
    AddTo(states, layer.attention_output.Times(SwapOuter(
                      *mixed, shape.heads, qkv.tokens, shape.head_dim())));
    AddTo(states, FeedForward(states, layer));
  }
  reading.hidden = RmsNorm(states, weights_.final_gain);
  return reading;
}

std::vector<float> StoryModel::Logits(const StoryReading& reading) const {
  return weights_.output.Times(reading.hidden);
}

}  // namespace attn
