#include "client/examples/storyteller/model.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the file is little-endian and is copied as it is");

// Sizes up to this cannot overflow when the floats of a file are counted.
constexpr int64_t kMostOfASize = 1 << 18;
constexpr float kNormEpsilon = 1e-5F;
constexpr int64_t kSizeFields = 7;

// Each row of x over the root of its mean square, times the gain (Zhang and
// Sennrich 2019).
std::vector<float> Normalised(absl::Span<const float> x,
                              const std::vector<float>& gain) {
  const size_t dim = gain.size();
  std::vector<float> result(x.size());
  for (size_t row = 0; row < x.size(); row += dim) {
    float squares = 0;
    for (size_t i = 0; i < dim; ++i) squares += x[row + i] * x[row + i];
    const float scale =
        1 / std::sqrt(squares / static_cast<float>(dim) + kNormEpsilon);
    for (size_t i = 0; i < dim; ++i) {
      result[row + i] = x[row + i] * scale * gain[i];
    }
  }
  return result;
}

void Add(const std::vector<float>& y, std::vector<float>& x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

absl::Status CheckDivides(const char* field, int64_t heads, const char* of,
                          int64_t whole) {
  if (whole % heads == 0) return absl::OkStatus();
  return FieldError(field, absl::StrCat(heads),
                    absl::StrCat("a divisor of ", of, ", ", whole));
}

// A size's name in the file, and where it goes.
struct SizeField {
  const char* name;
  int64_t LlamaSizes::*size;
};
constexpr SizeField kSizes[kSizeFields] = {
    {"model.dim", &LlamaSizes::dim},
    {"model.hidden_dim", &LlamaSizes::hidden_dim},
    {"model.n_layers", &LlamaSizes::layers},
    {"model.n_heads", &LlamaSizes::heads},
    {"model.n_kv_heads", &LlamaSizes::kv_heads},
    {"model.vocab_size", &LlamaSizes::vocabulary},
    {"model.seq_len", &LlamaSizes::longest_text},
};

absl::StatusOr<LlamaSizes> ParseSizes(absl::string_view file, bool& tied) {
  int32_t values[kSizeFields];
  if (file.size() < sizeof(values)) {
    return FieldError("model", absl::StrCat(file.size(), " bytes"),
                      absl::StrCat(sizeof(values), " bytes of sizes first"));
  }
  std::memcpy(values, file.data(), sizeof(values));
  LlamaSizes sizes;
  for (size_t i = 0; i < kSizeFields; ++i) {
    int64_t value = values[i];
    if (kSizes[i].size == &LlamaSizes::vocabulary) {
      // Negative: a classifier of its own follows at the end of the file.
      tied = value > 0;
      value = std::abs(value);
    }
    if (value < 1 || value > kMostOfASize) {
      return FieldError(kSizes[i].name, absl::StrCat(values[i]),
                        absl::StrCat("1 to ", kMostOfASize));
    }
    sizes.*kSizes[i].size = value;
  }
  absl::Status status =
      CheckDivides("model.n_heads", sizes.heads, "dim", sizes.dim);
  if (status.ok()) {
    status = CheckDivides("model.n_kv_heads", sizes.kv_heads, "n_heads",
                          sizes.heads);
  }
  if (status.ok() && sizes.head_dim() % 2 != 0) {
    status = FieldError("model.n_heads", absl::StrCat(sizes.heads),
                        "heads of an even size, for rotary pairs");
  }
  if (!status.ok()) return status;
  return sizes;
}

// What the file holds behind the sizes.
int64_t FloatsOf(const LlamaSizes& s, bool tied) {
  const int64_t layer = 2 * s.dim + 2 * s.dim * s.dim + 2 * s.kv_dim() * s.dim +
                        3 * s.hidden_dim * s.dim;
  const int64_t rotary_tables = s.longest_text * s.head_dim();
  return s.vocabulary * s.dim * (tied ? 1 : 2) + s.layers * layer + s.dim +
         rotary_tables;
}

}  // namespace

// Takes one tensor after the other; that the bytes are enough was checked.
class LlamaModel::Reader {
 public:
  explicit Reader(const char* floats) : next_(floats) {}

  std::vector<float> Floats(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    const size_t bytes = values.size() * sizeof(float);
    std::memcpy(values.data(), next_, bytes);
    next_ += bytes;
    return values;
  }

  static Matrix Transposed(const std::vector<float>& rows, int64_t outputs) {
    const size_t count = static_cast<size_t>(outputs);
    const size_t inputs = rows.size() / count;
    Matrix matrix{.outputs = outputs,
                  .values = std::vector<float>(rows.size())};
    for (size_t r = 0; r < count; ++r) {
      for (size_t c = 0; c < inputs; ++c) {
        matrix.values[c * count + r] = rows[r * inputs + c];
      }
    }
    return matrix;
  }

  // The same tensor of all layers.
  void Vectors(std::vector<Layer>& layers, std::vector<float> Layer::*tensor,
               int64_t size) {
    for (Layer& layer : layers) layer.*tensor = Floats(size);
  }
  void Matrices(std::vector<Layer>& layers, Matrix Layer::*tensor,
                int64_t outputs, int64_t inputs) {
    for (Layer& layer : layers) {
      layer.*tensor = Transposed(Floats(outputs * inputs), outputs);
    }
  }
  void Skip(int64_t floats) {
    next_ += static_cast<size_t>(floats) * sizeof(float);
  }

 private:
  const char* next_;
};

absl::StatusOr<LlamaModel> LlamaModel::Parse(absl::string_view file) {
  bool tied = true;
  const auto sizes = ParseSizes(file, tied);
  if (!sizes.ok()) return sizes.status();
  const LlamaSizes& s = *sizes;
  const int64_t expected =
      kSizeFields * static_cast<int64_t>(sizeof(int32_t)) +
      FloatsOf(s, tied) * static_cast<int64_t>(sizeof(float));
  if (static_cast<int64_t>(file.size()) != expected) {
    return FieldError("model", absl::StrCat(file.size(), " bytes"),
                      absl::StrCat(expected, " for the sizes that it names"));
  }
  Reader reader(file.data() + kSizeFields * sizeof(int32_t));
  LlamaModel model;
  model.sizes_ = s;
  model.embedding_ = reader.Floats(s.vocabulary * s.dim);
  model.layers_.resize(static_cast<size_t>(s.layers));
  std::vector<Layer>& layers = model.layers_;
  reader.Vectors(layers, &Layer::attention_norm, s.dim);
  reader.Matrices(layers, &Layer::q, s.dim, s.dim);
  reader.Matrices(layers, &Layer::k, s.kv_dim(), s.dim);
  reader.Matrices(layers, &Layer::v, s.kv_dim(), s.dim);
  reader.Matrices(layers, &Layer::output, s.dim, s.dim);
  reader.Vectors(layers, &Layer::feed_forward_norm, s.dim);
  reader.Matrices(layers, &Layer::gate, s.hidden_dim, s.dim);
  reader.Matrices(layers, &Layer::down, s.dim, s.hidden_dim);
  reader.Matrices(layers, &Layer::up, s.hidden_dim, s.dim);
  model.final_norm_ = reader.Floats(s.dim);
  // Cosines and sines of the rotary angles, which the session computes.
  reader.Skip(s.longest_text * s.head_dim());
  model.classifier_ = Reader::Transposed(
      tied ? model.embedding_ : reader.Floats(s.vocabulary * s.dim),
      s.vocabulary);
  return model;
}

std::vector<float> LlamaModel::Matrix::Times(absl::Span<const float> x) const {
  const size_t width = static_cast<size_t>(outputs);
  const size_t inputs = values.size() / width;
  std::vector<float> result(x.size() / inputs * width);
  for (size_t row = 0; row * inputs < x.size(); ++row) {
    float* y = result.data() + row * width;
    for (size_t c = 0; c < inputs; ++c) {
      const float factor = x[row * inputs + c];
      const float* column = values.data() + c * width;
      for (size_t r = 0; r < width; ++r) y[r] += factor * column[r];
    }
  }
  return result;
}

// w2 (silu(w1 n) * (w3 n)) of the normalised rows n (Shazeer 2020).
std::vector<float> LlamaModel::FeedForward(const Layer& layer,
                                           const std::vector<float>& x) {
  const std::vector<float> n = Normalised(x, layer.feed_forward_norm);
  std::vector<float> gated = layer.gate.Times(n);
  const std::vector<float> up = layer.up.Times(n);
  for (size_t i = 0; i < gated.size(); ++i) {
    gated[i] *= up[i] / (1 + std::exp(-gated[i]));
  }
  return layer.down.Times(gated);
}

absl::StatusOr<std::vector<float>> LlamaModel::Read(
    absl::Span<const int32_t> tokens, const LlamaAttention& attend) const {
  if (tokens.empty()) return FieldError("tokens", "none", "one at least");
  std::vector<float> x;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= sizes_.vocabulary) {
      return FieldError("tokens", absl::StrCat(token),
                        absl::StrCat("0 to ", sizes_.vocabulary - 1));
    }
    const auto row = embedding_.begin() + token * sizes_.dim;
    x.insert(x.end(), row, row + sizes_.dim);
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::vector<float> n = Normalised(x, layer.attention_norm);
    const auto seen = attend({.layer = static_cast<int>(i),
                              .tokens = static_cast<int64_t>(tokens.size()),
                              .q = layer.q.Times(n),
                              .k = layer.k.Times(n),
                              .v = layer.v.Times(n)});
    if (!seen.ok()) return seen.status();
    if (seen->size() != x.size()) {
      return absl::InternalError(absl::StrCat("the attention of layer ", i,
                                              " gave ", seen->size(),
                                              " numbers, expected ", x.size()));
    }
    Add(layer.output.Times(*seen), x);
    Add(FeedForward(layer, x), x);
  }
  const auto last =
      absl::MakeConstSpan(x).last(static_cast<size_t>(sizes_.dim));
  return classifier_.Times(Normalised(last, final_norm_));
}

}  // namespace attn
