// relu(x)^power / divisor (Wortsman et al. 2023).
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/elementwise_normalizer.h"
#include "engine/normalizers/members.h"
#include "engine/tile/elementwise_rows.h"

namespace attn {
namespace {

class Relu final : public ElementwiseNormalizer<Relu> {
 public:
  explicit Relu(const ReluNormalizer& spec)
      : ElementwiseNormalizer(spec.divisor), power_(spec.power) {}

  double Value(double x) const { return x > 0 ? std::pow(x, power_) : 0; }
  void MapRow(float* row, int64_t count, float divisor) const {
    ReluRow(row, count, power_, divisor);
  }
  double Slope(double x) const {
    return x > 0 ? power_ * std::pow(x, power_ - 1) : 0;
  }

 private:
  double power_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const double power = std::get<ReluNormalizer>(spec).power;
  if (std::isfinite(power) && power > 0) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".relu.power"), absl::StrCat(power),
                    "a finite number above 0");
}

std::string Describe(const NormalizerSpec& spec) {
  const auto& relu = std::get<ReluNormalizer>(spec);
  return absl::StrCat(
      "relu(x)^", relu.power,
      relu.divisor == Divisor::kVisibleKeys ? " / visible keys" : "");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<Relu>(std::get<ReluNormalizer>(spec));
}

}  // namespace

NormalizerEntry ReluNormalizerEntry() {
  return {"relu", "relu(x)^power, each key by itself", 5, Validate, Describe,
          Make};
}

}  // namespace attn
