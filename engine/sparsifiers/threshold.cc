// Logits above a bound, absolute or below the row's maximum.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/sparsifiers/members.h"
#include "engine/sparsifiers/row_sparsifier.h"
#include "engine/tile/row_math.h"
#include "engine/tile/selection.h"

namespace attn {
namespace {

class Threshold final : public RowSparsifier<Threshold> {
 public:
  explicit Threshold(const ThresholdSparsifier& spec) : spec_(spec) {}

  void DropFrom(float* row, int64_t count, float* /*scratch*/) const {
    KeepLargest(row, count, {FloatFrom(BoundOf(row, count)), count});
  }
  void DropFrom(double* row, int64_t count, double* /*scratch*/) const {
    const double bound = BoundOf(row, count);
    for (int64_t j = 0; j < count; ++j) {
      if (row[j] < bound) row[j] = -std::numeric_limits<double>::infinity();
    }
  }

 private:
  template <typename T>
  double BoundOf(const T* row, int64_t count) const {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    const double bound = spec_.min_logit.value_or(kNone);
    if (!spec_.below_max.has_value()) return bound;
    const auto max = static_cast<double>(RowMax(row, count));
    return std::max(bound, max - *spec_.below_max);
  }
  // The smallest float that is at least `bound`.
  static float FloatFrom(double bound) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (bound > std::numeric_limits<float>::max()) return kInfinity;
    const auto nearest = static_cast<float>(bound);
    return static_cast<double>(nearest) < bound
               ? std::nextafter(nearest, kInfinity)
               : nearest;
  }

  ThresholdSparsifier spec_;
};

absl::Status Validate(const SparsifierSpec& spec, const Problem& /*problem*/,
                      absl::string_view list_field) {
  const auto& threshold = std::get<ThresholdSparsifier>(spec);
  const std::string field = absl::StrCat(list_field, ".threshold");
  if (!threshold.min_logit.has_value() && !threshold.below_max.has_value()) {
    return FieldError(field, "nothing", "min_logit, below_max or both");
  }
  if (std::isnan(threshold.min_logit.value_or(0))) {
    return FieldError(absl::StrCat(field, ".min_logit"), "nan", "a number");
  }
  const double below = threshold.below_max.value_or(0);
  if (std::isfinite(below) && below >= 0) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".below_max"), absl::StrCat(below),
                    "a finite number >= 0");
}

std::string Describe(const SparsifierSpec& spec) {
  const auto& threshold = std::get<ThresholdSparsifier>(spec);
  std::string text = "threshold(";
  if (threshold.min_logit) absl::StrAppend(&text, *threshold.min_logit);
  if (threshold.below_max) {
    absl::StrAppend(&text, threshold.min_logit ? ", " : "", "max - ",
                    *threshold.below_max);
  }
  return text + ")";
}

std::unique_ptr<Sparsifier> Make(const SparsifierSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<Threshold>(std::get<ThresholdSparsifier>(spec));
}

}  // namespace

SparsifierEntry ThresholdSparsifierEntry() {
  return {"threshold", "logits above a bound, or near the row's maximum",
          1,           Validate,
          Describe,    Make};
}

}  // namespace attn
