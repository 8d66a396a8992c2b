// sigmoid(x + bias) / divisor (Ramapuram et al. 2024).
#include "engine/tile/sigmoid.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/elementwise_normalizer.h"
#include "engine/normalizers/members.h"
#include "engine/tile/elementwise_rows.h"

namespace attn {
namespace {

class Sigmoid final : public ElementwiseNormalizer<Sigmoid> {
 public:
  explicit Sigmoid(const SigmoidNormalizer& spec)
      : ElementwiseNormalizer(spec.divisor), bias_(spec.bias) {}

  double Value(double x) const { return SigmoidOf(x + bias_); }
  void MapRow(float* row, int64_t count, float divisor) const {
    SigmoidRow(row, count, static_cast<float>(bias_), divisor);
  }
  double Slope(double x) const { return SigmoidSlope(x + bias_); }

 private:
  double bias_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const double bias = std::get<SigmoidNormalizer>(spec).bias;
  if (std::isfinite(bias)) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".sigmoid.bias"), absl::StrCat(bias),
                    "a finite number");
}

std::string Describe(const NormalizerSpec& spec) {
  const auto& sigmoid = std::get<SigmoidNormalizer>(spec);
  return absl::StrCat(
      "sigmoid(x + ", sigmoid.bias, ")",
      sigmoid.divisor == Divisor::kVisibleKeys ? " / visible keys" : "");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<Sigmoid>(std::get<SigmoidNormalizer>(spec));
}

}  // namespace

NormalizerEntry SigmoidNormalizerEntry() {
  return {"sigmoid", "sigmoid(x + bias), each key by itself",
          4,         Validate,
          Describe,  Make};
}

}  // namespace attn
