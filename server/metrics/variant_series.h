// Series by variant, made when the variant is first seen.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/metrics/variant_budget.h"

namespace attn {

// `Series` is what one variant has, e.g. counters and a histogram. An announced
// variant gets its own if the budget has a place; every other shares those of
// "other", which are there from the start. Once made, series stay where they
// are. Thread-safe: a look-up takes a shared lock.
template <typename Series>
class VariantSeries {
 public:
  using Make = std::function<Series(const std::string& variant)>;

  // `budget` must live as long as this.
  VariantSeries(const std::vector<std::string>& announced, Make make,
                VariantBudget* budget)
      : announced_(announced.begin(), announced.end()),
        make_(std::move(make)),
        budget_(budget),
        other_(make_(kOtherVariant)) {}

  const Series& Of(const std::string& variant) {
    if (!announced_.contains(variant)) return other_;
    {
      const std::shared_lock lock(mutex_);
      const auto found = made_.find(variant);
      if (found != made_.end()) return *found->second;
    }
    const std::unique_lock lock(mutex_);
    const auto [place, is_new] = made_.emplace(variant, &other_);
    if (is_new && budget_->Admit(variant)) {
      place->second = &owned_.emplace(variant, make_(variant)).first->second;
    }
    return *place->second;
  }

 private:
  const std::set<std::string> announced_;
  const Make make_;
  VariantBudget* const budget_;
  const Series other_;
  std::shared_mutex mutex_;
  // By variant, what it uses: its own, or other_'s.
  std::map<std::string, const Series*> made_;
  std::map<std::string, Series> owned_;
};

}  // namespace attn
