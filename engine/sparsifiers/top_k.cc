// The k largest logits of a row. NaN counts as largest: it is visible data and
// must not vanish.
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

class TopK final : public RowSparsifier<TopK> {
 public:
  explicit TopK(const TopKSparsifier& spec) : spec_(spec) {}

  void DropFrom(double* row, int64_t count, double* scratch) const {
    DropAny(row, count, scratch);
  }
  void DropFrom(float* row, int64_t count, float* scratch) const {
    const RowRange<float> range = ScanRow(row, count);
    if (range.has_nan) return DropAny(row, count, scratch);
    if (range.visible <= spec_.k) return;
    Cutoff cutoff = LargestByCount(row, count, spec_.k, scratch);
    if (spec_.ties == TieRule::kKeepAll) cutoff.count = count;
    KeepLargest(row, count, cutoff);
  }

 private:
  template <typename T>
  void DropAny(T* row, int64_t count, T* scratch) const {
    constexpr T kExcluded = -std::numeric_limits<T>::infinity();
    T* end = std::copy_if(row, row + count, scratch,
                          [](T x) { return x != kExcluded && !std::isnan(x); });
    const int64_t nans =
        std::count_if(row, row + count, [](T x) { return std::isnan(x); });
    const int64_t k = std::max<int64_t>(spec_.k - nans, 0);
    if (end - scratch <= k) return;
    T threshold = std::numeric_limits<T>::infinity();
    if (k > 0) {
      std::nth_element(scratch, scratch + k - 1, end, std::greater<T>());
      threshold = scratch[k - 1];
    }
    int64_t ties = KeptTies(row, count, threshold, k);
    for (int64_t j = 0; j < count; ++j) {
      if (row[j] > threshold || std::isnan(row[j])) continue;
      const bool kept = k > 0 && row[j] == threshold && ties-- > 0;
      if (!kept) row[j] = kExcluded;
    }
  }
  // How many of the keys that equal the k-th stay, lowest index first.
  template <typename T>
  int64_t KeptTies(const T* row, int64_t count, T threshold, int64_t k) const {
    if (spec_.ties == TieRule::kKeepAll) return count;
    return k - std::count_if(row, row + count,
                             [threshold](T x) { return x > threshold; });
  }

  TopKSparsifier spec_;
};

absl::Status Validate(const SparsifierSpec& spec, const Problem& /*problem*/,
                      absl::string_view field) {
  const int64_t k = std::get<TopKSparsifier>(spec).k;
  if (k >= 1) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".top_k.k"), absl::StrCat(k),
                    "a number >= 1");
}

std::string Describe(const SparsifierSpec& spec) {
  const auto& top_k = std::get<TopKSparsifier>(spec);
  return absl::StrCat("top_k(", top_k.k,
                      top_k.ties == TieRule::kKeepAll ? ", keep_all)" : ")");
}

std::unique_ptr<Sparsifier> Make(const SparsifierSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<TopK>(std::get<TopKSparsifier>(spec));
}

}  // namespace

SparsifierEntry TopKSparsifierEntry() {
  return {"top_k", "the k largest logits", 0, Validate, Describe, Make};
}

}  // namespace attn
