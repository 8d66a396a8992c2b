// scale * <q, k> (Vaswani et al. 2017, section 3.2.1).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/scores/members.h"
#include "engine/scores/product_score.h"

namespace attn {
namespace {

class DotProduct final : public ProductScore {
 public:
  DotProduct(double scale, const std::optional<LearnedScale>& learned,
             int64_t width)
      : ProductScore(scale, learned), width_(width) {}

  int64_t prepared_width() const override { return width_; }

 private:
  int64_t width_;
};

absl::Status Validate(const ScoreSpec& spec, const Problem& problem,
                      absl::string_view field) {
  const auto& dot = std::get<DotScore>(spec);
  for (const absl::Status& status :
       {CheckEqualWidths(problem),
        CheckScale(dot.scale, absl::StrCat(field, ".dot.scale")),
        CheckLearnedScale(problem, dot.learned_scale,
                          absl::StrCat(field, ".dot.learned_scale"))}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Describe(const ScoreSpec& spec) {
  return std::get<DotScore>(spec).learned_scale ? "dot * learned" : "dot";
}

std::unique_ptr<Score> Make(const ScoreSpec& spec, const Problem& problem) {
  const auto& dot = std::get<DotScore>(spec);
  const int64_t dim = problem.shape.k_dim;
  // Without dimensions every product is 0 and no scale matters.
  const double usual =
      dim == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(dim));
  return std::make_unique<DotProduct>(dot.scale.value_or(usual),
                                      dot.learned_scale, dim);
}

}  // namespace

ScoreEntry DotScoreEntry() {
  return {"dot",    "scale * <q, k>, scale 1 / sqrt(d_k) unless given",
          0,        Validate,
          Describe, Make};
}

}  // namespace attn
