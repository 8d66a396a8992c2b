// scale * <q, k> (Vaswani et al. 2017, section 3.2.1).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/scores/members.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

class DotProduct final : public Score {
 public:
  explicit DotProduct(double scale) : scale_(scale) {}

  bool is_dot() const override { return true; }
  double scale(int64_t /*head*/) const override { return scale_; }

  void Compute(const CallView& call, const float* q_rows, const float* k_rows,
               const Tile<float>& tile) const override {
    ComputeTile(call, q_rows, k_rows, tile);
  }
  void Compute(const CallView& call, const double* q_rows, const double* k_rows,
               const Tile<double>& tile) const override {
    ComputeTile(call, q_rows, k_rows, tile);
  }

 private:
  template <typename T>
  void ComputeTile(const CallView& call, const T* q_rows, const T* k_rows,
                   const Tile<T>& tile) const {
    const int64_t dim = call.shape.qk_dim;
    for (int64_t r = 0; r < tile.bounds.rows; ++r) {
      T* row = tile.Row(r);
      for (int64_t j = 0; j < tile.bounds.keys; ++j) {
        const T product = Dot(q_rows + r * dim, k_rows + j * dim, dim);
        // In double: the scale itself need not fit a float.
        row[j] = static_cast<T>(scale_ * static_cast<double>(product));
      }
    }
  }

  double scale_;
};

absl::Status Validate(const ScoreSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const auto& dot = std::get<DotScore>(spec);
  if (!dot.scale.has_value() || std::isfinite(*dot.scale)) {
    return absl::OkStatus();
  }
  return FieldError(absl::StrCat(field, ".dot.scale"), absl::StrCat(*dot.scale),
                    "a finite number");
}

std::string Describe(const ScoreSpec& /*spec*/) { return "dot"; }

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  const auto& dot = std::get<DotScore>(spec);
  const int64_t dim = problem.shape.qk_dim;
  // Without dimensions every product is 0 and no scale matters.
  const double usual =
      dim == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(dim));
  return std::make_unique<DotProduct>(dot.scale.value_or(usual));
}

}  // namespace

ScoreEntry DotScoreEntry() {
  return {"dot",    "scale * <q, k>, scale 1 / sqrt(d_k) unless given",
          0,        Validate,
          Describe, Make};
}

}  // namespace attn
