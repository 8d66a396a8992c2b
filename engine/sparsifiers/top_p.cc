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

namespace attn {
namespace {

class TopP final : public RowSparsifier<TopP> {
 public:
  explicit TopP(double p) : p_(p) {}

  template <typename T>
  void DropFrom(T* row, int64_t count, T* scratch) const {
    constexpr T kExcluded = -std::numeric_limits<T>::infinity();
    const RowRange<T> range = ScanRow(row, count);
    // A row that is not finite keeps what it has: its weights are NaN.
    if (range.visible == 0 || range.has_nan || std::isinf(range.max)) return;
    T* end = std::copy_if(row, row + count, scratch,
                          [](T x) { return x != kExcluded; });
    std::sort(scratch, end, std::greater<T>());
    const auto weight = [&range](T x) {
      return std::exp(static_cast<double>(x) - static_cast<double>(range.max));
    };
    double total = 0;
    for (const T* x = scratch; x != end; ++x) total += weight(*x);
    double sum = 0;
    int64_t kept = 0;
    while (kept < end - scratch && sum < p_ * total) {
      sum += weight(scratch[kept++]);
    }
    Keep(row, count, kept, scratch);
  }

 private:
  // Excludes all but the first `kept` of the sorted elements.
  template <typename T>
  static void Keep(T* row, int64_t count, int64_t kept, const T* sorted) {
    const T last = sorted[kept - 1];
    int64_t ties = std::count(sorted, sorted + kept, last);
    for (int64_t j = 0; j < count; ++j) {
      if (row[j] > last) continue;
      if (row[j] == last && ties-- > 0) continue;
      row[j] = -std::numeric_limits<T>::infinity();
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
