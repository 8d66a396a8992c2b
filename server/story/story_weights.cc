#include "server/story/story_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "server/story/story_bytes.h"

namespace attn {
namespace {

// Far beyond any model that is small enough to look at, and small enough that
// the product of three sizes cannot overflow.
constexpr int64_t kLargestSize = 1 << 16;

// Cosines and sines of the rotary angles, which the file repeats at its end.
constexpr int64_t kRotaryTables = 2;

absl::Status CheckHeads(const StoryShape& shape) {
  if (shape.width % shape.heads != 0 || shape.head_dim() % 2 != 0) {
    return FieldError(
        "weights.heads",
        absl::StrCat(shape.heads, " heads for a width of ", shape.width),
        "heads of one even size that fill the width");
  }
  if (shape.heads % shape.kv_heads != 0) {
    return FieldError("weights.kv_heads",
                      absl::StrCat(shape.kv_heads, " key/value heads for ",
                                   shape.heads, " query heads"),
                      "a divisor of the query heads");
  }
  return absl::OkStatus();
}

absl::StatusOr<StoryShape> ParseShape(StoryBytes& bytes) {
  StoryShape shape;
  const std::pair<const char*, int64_t*> fields[] = {
      {"width", &shape.width},
      {"feed_forward", &shape.feed_forward},
      {"layers", &shape.layers},
      {"heads", &shape.heads},
      {"kv_heads", &shape.kv_heads},
      {"vocabulary", &shape.vocabulary},
      {"longest_text", &shape.longest_text}};
  for (const auto& [name, size] : fields) {
    const auto value = bytes.Read<int32_t>();
    if (!value.has_value()) {
      return FieldError(absl::StrCat("weights.", name), "the end of the file",
                        "a 32-bit integer");
    }
    if (*value < 1 || *value > kLargestSize) {
      return FieldError(absl::StrCat("weights.", name), absl::StrCat(*value),
                        absl::StrCat("1 to ", kLargestSize));
    }
    *size = *value;
  }
  absl::Status status = CheckHeads(shape);
  if (!status.ok()) return status;
  return shape;
}

int64_t KvWidth(const StoryShape& shape) {
  return shape.kv_heads * shape.head_dim();
}

int64_t FloatCount(const StoryShape& shape) {
  const int64_t attention =
      2 * shape.width * shape.width + 2 * KvWidth(shape) * shape.width;
  const int64_t feed_forward = 3 * shape.feed_forward * shape.width;
  const int64_t gains = 2 * shape.width;
  return shape.vocabulary * shape.width +
         shape.layers * (attention + feed_forward + gains) + shape.width +
         kRotaryTables * shape.longest_text * shape.head_dim() / 2;
}

// The file's arrays in their order; its size has been checked, so that each
// read fits.
class ArrayReader {
 public:
  explicit ArrayReader(StoryBytes& bytes) : bytes_(bytes) {}

  std::vector<float> Floats(int64_t count) {
    std::vector<float> values =
        bytes_.ReadFloats(static_cast<size_t>(count)).value();
    finite_ = finite_ && std::all_of(values.begin(), values.end(),
                                     [](float x) { return std::isfinite(x); });
    return values;
  }
  StoryMatrix Matrix(int64_t outputs, int64_t inputs) {
    return {outputs, inputs, Floats(outputs * inputs)};
  }
  bool finite() const { return finite_; }

 private:
  StoryBytes& bytes_;
  bool finite_ = true;
};

// All layers' arrays of one kind follow each other.
void ReadLayers(ArrayReader& reader, StoryWeights& weights) {
  const StoryShape& s = weights.shape;
  std::vector<StoryLayerWeights>& layers = weights.layers;
  layers.resize(static_cast<size_t>(s.layers));
  for (auto& layer : layers) layer.attention_gain = reader.Floats(s.width);
  for (auto& layer : layers) layer.query = reader.Matrix(s.width, s.width);
  for (auto& layer : layers) layer.key = reader.Matrix(KvWidth(s), s.width);
  for (auto& layer : layers) layer.value = reader.Matrix(KvWidth(s), s.width);
  for (auto& layer : layers) {
    layer.attention_output = reader.Matrix(s.width, s.width);
  }
  for (auto& layer : layers) layer.feed_forward_gain = reader.Floats(s.width);
  for (auto& layer : layers)
    layer.gate = reader.Matrix(s.feed_forward, s.width);
  for (auto& layer : layers)
    layer.down = reader.Matrix(s.width, s.feed_forward);
  for (auto& layer : layers) layer.up = reader.Matrix(s.feed_forward, s.width);
}

}  // namespace

StoryMatrix::StoryMatrix(int64_t outputs, int64_t inputs,
                         const std::vector<float>& rows)
    : outputs_(outputs), inputs_(inputs), columns_(rows.size()) {
  for (int64_t r = 0; r < outputs; ++r) {
    for (int64_t c = 0; c < inputs; ++c) {
      columns_[static_cast<size_t>(c * outputs + r)] =
          rows[static_cast<size_t>(r * inputs + c)];
    }
  }
}

std::vector<float> StoryMatrix::Times(const std::vector<float>& x) const {
  const int64_t n = static_cast<int64_t>(x.size()) / inputs_;
  std::vector<float> result(static_cast<size_t>(n * outputs_));
  for (int64_t i = 0; i < n; ++i) {
    float* y = result.data() + i * outputs_;
    for (int64_t c = 0; c < inputs_; ++c) {
      const float factor = x[static_cast<size_t>(i * inputs_ + c)];
      const float* column = columns_.data() + c * outputs_;
      for (int64_t r = 0; r < outputs_; ++r) y[r] += factor * column[r];
    }
  }
  return result;
}

absl::StatusOr<StoryWeights> ParseStoryWeights(absl::string_view bytes) {
  StoryBytes rest(bytes);
  const absl::StatusOr<StoryShape> shape = ParseShape(rest);
  if (!shape.ok()) return shape.status();
  const int64_t expected =
      FloatCount(*shape) * static_cast<int64_t>(sizeof(float));
  if (static_cast<int64_t>(rest.left()) != expected) {
    return FieldError("weights",
                      absl::StrCat(rest.left(), " bytes after the sizes"),
                      absl::StrCat(expected, " bytes for sizes as they are"));
  }
  ArrayReader reader(rest);
  StoryWeights weights;
  weights.shape = *shape;
  weights.embedding = reader.Floats(shape->vocabulary * shape->width);
  weights.output = {shape->vocabulary, shape->width, weights.embedding};
  ReadLayers(reader, weights);
  weights.final_gain = reader.Floats(shape->width);
  if (!reader.finite()) {
    return FieldError("weights", "an infinity or a NaN", "finite numbers");
  }
  return weights;
}

}  // namespace attn
