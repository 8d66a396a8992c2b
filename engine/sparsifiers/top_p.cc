// The fewest keys whose softmax weights sum to p (Holtzman et al. 2020, nucleus
// sampling), largest first, the lowest index on ties.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/sparsifiers/members.h"
#include "engine/sparsifiers/row_sparsifier.h"
#include "engine/tile/row_math.h"
#include "engine/tile/selection.h"

namespace attn {
namespace {

class TopP final : public RowSparsifier<TopP> {
 public:
  explicit TopP(double p) : p_(p) {}

  void DropFrom(float* row, int64_t count, float* scratch) const {
    const RowRange<float> range = ScanRow(row, count);
    if (KeepsAll(range)) return;
    KeepLargest(row, count,
                LargestByWeight(row, count, {range.max, p_}, scratch));
  }
  void DropFrom(double* row, int64_t count, double* scratch) const {
    const RowRange<double> range = ScanRow(row, count);
    if (KeepsAll(range)) return;
    double* end = std::copy_if(row, row + count, scratch,
                               [](double x) { return x != kExcluded; });
    std::sort(scratch, end, std::greater<double>());
    double total = 0;
    for (const double* x = scratch; x != end; ++x) {
      total += std::exp(*x - range.max);
    }
    double sum = 0;
    int64_t kept = 0;
    while (kept < end - scratch && sum < p_ * total) {
      sum += std::exp(scratch[kept++] - range.max);
    }
    Keep(row, count, kept, scratch);
  }

 private:
  static constexpr double kExcluded = -std::numeric_limits<double>::infinity();

  // A row that is not finite keeps what it has: its weights are NaN. All
  // weights are needed for a sum of 1.
  template <typename T>
  bool KeepsAll(const RowRange<T>& range) const {
    return range.visible == 0 || range.has_nan || std::isinf(range.max) ||
           p_ == 1;
  }

  // Excludes all but the first `kept` of the sorted elements.
  static void Keep(double* row, int64_t count, int64_t kept,
                   const double* sorted) {
    const double last = sorted[kept - 1];
    int64_t ties = std::count(sorted, sorted + kept, last);
    for (int64_t j = 0; j < count; ++j) {
      if (row[j] > last) continue;
      if (row[j] == last && ties-- > 0) continue;
      row[j] = kExcluded;
    }
  }

  double p_;
};

absl::Status Validate(const SparsifierSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const double p = std::get<TopPSparsifier>(spec).p;
  if (p > 0 && p <= 1) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".top_p.p"), absl::StrCat(p),
                    "above 0, at most 1");
}

std::string Describe(const SparsifierSpec& spec) {
  return absl::StrCat("top_p(", std::get<TopPSparsifier>(spec).p, ")");
}

std::unique_ptr<Sparsifier> Make(const SparsifierSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<TopP>(std::get<TopPSparsifier>(spec).p);
}

}  // namespace

SparsifierEntry TopPSparsifierEntry() {
  return {"top_p",  "the fewest keys whose softmax weights sum to p",
          2,        Validate,
          Describe, Make};
}

}  // namespace attn
