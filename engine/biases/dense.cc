// A tensor added to the logits.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/tile/broadcast_view.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16,
                             DType::kF64};

class Dense final : public Bias {
 public:
  explicit Dense(uint32_t input) : input_(input) {}

  void Add(const CallView& call, const Tile<float>& tile) const override {
    AddTo(call, tile);
  }
  void Add(const CallView& call, const Tile<double>& tile) const override {
    AddTo(call, tile);
  }
  // The rows of a tile are short and far apart: the machine does not foresee
  // them.
  void Prefetch(const CallView& call, const TileBounds& b) const override {
    const BroadcastView bias(call.args.inputs[input_]);
    if (bias.row_stride() == 0 || bias.key_stride() != 1) return;
    for (int64_t r = 0; r < b.rows; ++r) {
      const std::byte* at =
          bias.At(b.batch, b.head, b.row_begin + r, b.key_begin);
      const std::byte* end =
          bias.At(b.batch, b.head, b.row_begin + r, b.key_begin + b.keys);
      for (; at < end; at += kCacheLine) __builtin_prefetch(at);
    }
  }
  // The gradient of an axis that was broadcast is its sum.
  void Backward(const CallView& call, const Tile<double>& gradient,
                const GradientSink& sink) const override {
    double* of_bias = sink.Of(input_);
    if (of_bias == nullptr) return;
    // Strides of the buffer, which is row-major whatever the tensor is.
    const BroadcastView bias(TensorView::Dense(of_bias, DType::kF64,
                                               call.args.inputs[input_].shape));
    const TileBounds& b = gradient.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      for (int64_t j = 0; j < b.keys; ++j) {
        const auto* at = reinterpret_cast<const double*>(
            bias.At(b.batch, b.head, b.row_begin + r, b.key_begin + j));
        of_bias[at - of_bias] += gradient.Row(r)[j];
      }
    }
  }

 private:
  template <typename T>
  void AddTo(const CallView& call, const Tile<T>& tile) const {
    const BroadcastView bias(call.args.inputs[input_]);
    const TileBounds& b = tile.bounds;
    if (AddInPlace(call, bias, tile)) return;
    AddInChunks(tile, [&](int64_t row, int64_t key, int64_t count, T* out) {
      LoadElements(bias.At(b.batch, b.head, row, key), bias.dtype(),
                   bias.key_stride(), count, out);
    });
  }
  // Rows of floats that can be read where they are. Memory that is read a tile
  // at a time comes late: the next tile of the row is asked for beforehand.
  static bool AddInPlace(const CallView& call, const BroadcastView& bias,
                         const Tile<float>& tile) {
    const TileBounds& b = tile.bounds;
    const std::byte* first = bias.At(b.batch, b.head, b.row_begin, b.key_begin);
    if (bias.dtype() != DType::kF32 || bias.key_stride() != 1 ||
        reinterpret_cast<uintptr_t>(first) % alignof(float) != 0) {
      return false;
    }
    const int64_t next =
        std::min(b.keys, call.shape.kv_length - (b.key_begin + b.keys));
    for (int64_t r = 0; r < b.rows; ++r) {
      const auto* row =
          reinterpret_cast<const float*>(first) + r * bias.row_stride();
      for (int64_t j = 0; j < next; j += kLineFloats) {
        __builtin_prefetch(row + b.keys + j, 0, kToSecondCache);
      }
      AddRow(tile.Row(r), row, b.keys);
    }
    return true;
  }
  static bool AddInPlace(const CallView& /*call*/,
                         const BroadcastView& /*bias*/,
                         const Tile<double>& /*tile*/) {
    return false;
  }

  // Floats of a cache line, and how near prefetched ones are wanted.
  static constexpr int64_t kLineFloats = 16;
  static constexpr int kToSecondCache = 2;

  uint32_t input_;
};

absl::Status Validate(const BiasSpec& spec, const Problem& problem,
                      absl::string_view field) {
  return CheckBroadcast(problem, std::get<DenseBias>(spec).input,
                        {kDTypes, "F32, F16, BF16 or F64"},
                        absl::StrCat(field, ".dense.tensor.input"));
}

std::string Describe(const BiasSpec& spec) {
  return absl::StrCat("dense(inputs[", std::get<DenseBias>(spec).input, "])");
}

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Dense>(std::get<DenseBias>(spec).input);
}

}  // namespace

BiasEntry DenseBiasEntry() {
  return {
      "dense",  "a tensor that broadcasts to [B, Hq, Sq, Sk]; -inf excludes",
      0,        Validate,
      Describe, Make};
}

}  // namespace attn
