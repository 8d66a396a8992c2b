// A tensor added to the logits.
#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/tile/broadcast_view.h"
#include "engine/tile/convert.h"

namespace attn {
namespace {

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
    AddInChunks(tile, [&](int64_t row, int64_t key, int64_t count, T* out) {
      LoadElements(bias.At(b.batch, b.head, row, key), bias.dtype(),
                   bias.key_stride(), count, out);
    });
  }

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
