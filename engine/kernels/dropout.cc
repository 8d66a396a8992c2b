#include "engine/kernels/dropout.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/tile/broadcast_view.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/philox.h"

namespace attn {
namespace {

constexpr DType kKeepTypes[] = {DType::kBool};
// Of one draw of Philox.
constexpr int64_t kWords = 4;
// Keys whose keep mask stands on the stack.
constexpr int64_t kChunk = 256;

}  // namespace

absl::Status ValidateDropout(const Problem& problem) {
  const std::optional<DropoutSpec>& dropout = problem.spec.dropout;
  if (!dropout.has_value()) {
    if (!problem.outputs.dropout_keep) return absl::OkStatus();
    return FieldError("outputs", "the keep mask of a call without dropout",
                      "spec.dropout, or another output");
  }
  if (!(dropout->p >= 0 && dropout->p < 1)) {
    return FieldError("spec.dropout.p", absl::StrCat(dropout->p),
                      "a probability >= 0 and < 1");
  }
  if (!dropout->keep.has_value()) return absl::OkStatus();
  return CheckBroadcast(problem, *dropout->keep, {kKeepTypes, "BOOL"},
                        "spec.dropout.keep.input");
}

Dropout::Dropout(const Problem& problem) : spec_(problem.spec.dropout) {
  if (!on()) return;
  threshold_ = static_cast<uint64_t>(std::ceil(spec_->p * 0x1p32));
}

void Dropout::Draw(const TileBounds& bounds, uint8_t* keep) const {
  const auto word = [](int64_t index) { return static_cast<uint32_t>(index); };
  const std::array<uint32_t, 2> seed = {
      static_cast<uint32_t>(spec_->seed),
      static_cast<uint32_t>(spec_->seed >> 32)};
  const int64_t end = bounds.key_begin + bounds.keys;
  for (int64_t key = bounds.key_begin; key < end;) {
    const int64_t block = key / kWords;
    const std::array<uint32_t, 4> words =
        Philox4x32({word(block), word(bounds.row_begin), word(bounds.head),
                    word(bounds.batch)},
                   seed);
    for (; key < std::min((block + 1) * kWords, end); ++key) {
      const uint64_t drawn = words[static_cast<size_t>(key % kWords)];
      *keep++ = drawn < threshold_ ? 0 : 1;
    }
  }
}

void Dropout::Keep(const CallView& call, const TileBounds& bounds,
                   uint8_t* keep) const {
  if (!spec_->keep.has_value()) return Draw(bounds, keep);
  const BroadcastView mask(call.args.inputs[*spec_->keep]);
  const std::byte* from =
      mask.At(bounds.batch, bounds.head, bounds.row_begin, bounds.key_begin);
  for (int64_t j = 0; j < bounds.keys; ++j) {
    keep[j] = from[j * mask.key_stride()] != std::byte{0} ? 1 : 0;
  }
}

double Dropout::FactorOf(double kept_sum) const {
  if (!spec_->renormalize) return 1 / (1 - spec_->p);
  return kept_sum == 0 ? 0 : 1 / kept_sum;
}

template <typename T>
void Dropout::ApplyTo(const CallView& call, const Tile<T>& weights) const {
  uint8_t keep[kChunk];
  TileBounds part = weights.bounds;
  part.rows = 1;
  for (int64_t r = 0; r < weights.bounds.rows; ++r) {
    part.row_begin = weights.bounds.row_begin + r;
    T* row = weights.Row(r);
    double sum = 0;
    for (int64_t j = 0; j < weights.bounds.keys; j += kChunk) {
      part.key_begin = weights.bounds.key_begin + j;
      part.keys = std::min(kChunk, weights.bounds.keys - j);
      Keep(call, part, keep);
      for (int64_t i = 0; i < part.keys; ++i) {
        row[j + i] = keep[i] != 0 ? row[j + i] : T{0};
        sum += static_cast<double>(row[j + i]);
      }
    }
    const double factor = FactorOf(sum);
    for (int64_t j = 0; j < weights.bounds.keys; ++j) {
      row[j] = static_cast<T>(static_cast<double>(row[j]) * factor);
    }
  }
}

void Dropout::Apply(const CallView& call, const Tile<float>& weights) const {
  if (on()) ApplyTo(call, weights);
}

void Dropout::Apply(const CallView& call, const Tile<double>& weights) const {
  if (on()) ApplyTo(call, weights);
}

double Dropout::KeptSum(const CallView& call, const TileBounds& row,
                        const double* weights) const {
  uint8_t keep[kChunk];
  TileBounds part = row;
  double sum = 0;
  for (int64_t j = 0; j < row.keys; j += kChunk) {
    part.key_begin = row.key_begin + j;
    part.keys = std::min(kChunk, row.keys - j);
    Keep(call, part, keep);
    for (int64_t i = 0; i < part.keys; ++i) {
      if (keep[i] != 0) sum += weights[j + i];
    }
  }
  return sum;
}

// y = keep w f. f = 1 / (1 - p): dw = keep f g. f = 1 / sum keep w:
// dw = keep f (g - sum y g).
void Dropout::Backward(const CallView& call, const Tile<double>& weights,
                       const Tile<double>& dropped,
                       const Tile<double>& gradient) const {
  if (!on()) return;
  uint8_t keep[kChunk];
  const TileBounds& bounds = gradient.bounds;
  TileBounds row = bounds;
  row.rows = 1;
  for (int64_t r = 0; r < bounds.rows; ++r) {
    row.row_begin = bounds.row_begin + r;
    double* g = gradient.Row(r);
    double pull = 0;
    for (int64_t j = 0; j < bounds.keys && spec_->renormalize; ++j) {
      if (dropped.Row(r)[j] != 0) pull += dropped.Row(r)[j] * g[j];
    }
    const double factor = FactorOf(KeptSum(call, row, weights.Row(r)));
    TileBounds part = row;
    for (int64_t j = 0; j < bounds.keys; j += kChunk) {
      part.key_begin = bounds.key_begin + j;
      part.keys = std::min(kChunk, bounds.keys - j);
      Keep(call, part, keep);
      for (int64_t i = 0; i < part.keys; ++i) {
        g[j + i] = keep[i] != 0 ? (g[j + i] - pull) * factor : 0;
      }
    }
  }
}

absl::Status ValidateHeadGate(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  if (!problem.spec.head_gate.has_value()) return absl::OkStatus();
  return CheckParameter(
      problem, *problem.spec.head_gate,
      {Shape{shape.q_heads}, Shape{shape.batch, shape.q_heads, shape.q_length}},
      "spec.head_gate.input");
}

int64_t HeadGate::IndexOf(const CallView& call, const RowBlock& block,
                          int64_t row) const {
  const AttentionShape& shape = call.shape;
  if (call.args.inputs[*gate_].shape.rank() == 1) return block.head;
  return (block.batch * shape.q_heads + block.head) * shape.q_length + row;
}

double HeadGate::At(const CallView& call, const RowBlock& block,
                    int64_t row) const {
  const ParameterView gate(call.args.inputs[*gate_]);
  return gate.At(IndexOf(call, block, row));
}

double* HeadGate::GradientAt(const CallView& call, const RowBlock& block,
                             int64_t row, const GradientSink& sink) const {
  double* of_gate = on() ? sink.Of(*gate_) : nullptr;
  return of_gate == nullptr ? nullptr : of_gate + IndexOf(call, block, row);
}

template <typename T>
void HeadGate::ApplyTo(const CallView& call, const RowBlock& block,
                       T* rows) const {
  const int64_t width = call.shape.v_dim;
  for (int64_t r = 0; r < block.valid_rows; ++r) {
    const auto factor = static_cast<T>(At(call, block, block.row_begin + r));
    T* row = rows + r * width;
    for (int64_t c = 0; c < width; ++c)
      row[c] = row[c] == 0 ? 0 : row[c] * factor;
  }
}

void HeadGate::Apply(const CallView& call, const RowBlock& block,
                     float* rows) const {
  if (on()) ApplyTo(call, block, rows);
}

void HeadGate::Apply(const CallView& call, const RowBlock& block,
                     double* rows) const {
  if (on()) ApplyTo(call, block, rows);
}

}  // namespace attn
