// One learned number for each head.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

class Constant final : public Bias {
 public:
  explicit Constant(uint32_t values) : values_(values) {}

  void Add(const CallView& call, const Tile<float>& tile) const override {
    AddTo(call, tile);
  }
  void Add(const CallView& call, const Tile<double>& tile) const override {
    AddTo(call, tile);
  }
  void Backward(const CallView& /*call*/, const Tile<double>& gradient,
                const GradientSink& sink) const override {
    double* of_values = sink.Of(values_);
    if (of_values == nullptr) return;
    for (int64_t r = 0; r < gradient.bounds.rows; ++r) {
      for (int64_t j = 0; j < gradient.bounds.keys; ++j) {
        of_values[gradient.bounds.head] += gradient.Row(r)[j];
      }
    }
  }

 private:
  template <typename T>
  void AddTo(const CallView& call, const Tile<T>& tile) const {
    T value = 0;
    ParameterView(call.args.inputs[values_]).Load(tile.bounds.head, 1, &value);
    AddInChunks(tile, [value](int64_t /*row*/, int64_t /*key*/, int64_t count,
                              T* out) { std::fill_n(out, count, value); });
  }

  uint32_t values_;
};

absl::Status Validate(const BiasSpec& spec, const Problem& problem,
                      absl::string_view field) {
  return CheckParameter(problem, std::get<ConstantBias>(spec).values,
                        {Shape{problem.shape.q_heads}},
                        absl::StrCat(field, ".constant.values.input"));
}

std::string Describe(const BiasSpec& /*spec*/) { return "constant[h]"; }

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Constant>(std::get<ConstantBias>(spec).values);
}

}  // namespace

BiasEntry ConstantBiasEntry() {
  return {"constant", "one number for each head", 5, Validate, Describe, Make};
}

}  // namespace attn
