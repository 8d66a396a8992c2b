#include "client/load/rate_search.h"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

// Thread-compatible.
class RateSearch {
 public:
  RateSearch(const RateSearchOptions& options, const RateTrial& trial)
      : options_(options), trial_(trial) {}

  absl::StatusOr<RateSearchOutcome> Run() {
    absl::Status status = Try(options_.start);
    if (status.ok()) status = outcome_.held.has_value() ? Grow() : Shrink();
    if (status.ok()) status = Bisect();
    if (!status.ok()) return status;
    outcome_.converged = Converged();
    return outcome_;
  }

 private:
  bool MayTry() const { return outcome_.trials < options_.most_trials; }

  absl::Status Try(double rate) {
    ++outcome_.trials;
    const absl::StatusOr<bool> holds = trial_(rate);
    if (!holds.ok()) return holds.status();
    (*holds ? outcome_.held : outcome_.failed) = rate;
    return absl::OkStatus();
  }

  absl::Status Grow() {
    constexpr double kGrowth = 2;
    while (MayTry() && !outcome_.failed.has_value() &&
           *outcome_.held < options_.highest) {
      absl::Status status =
          Try(std::min(options_.highest, *outcome_.held * kGrowth));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The further it goes down, the faster: little is known of where it ends.
  absl::Status Shrink() {
    double factor = 2;
    while (MayTry() && !outcome_.held.has_value() &&
           *outcome_.failed > options_.lowest) {
      absl::Status status =
          Try(std::max(options_.lowest, *outcome_.failed / factor));
      if (!status.ok()) return status;
      factor *= factor;
    }
    return absl::OkStatus();
  }

  absl::Status Bisect() {
    while (MayTry() && outcome_.held.has_value() &&
           outcome_.failed.has_value() && !Converged()) {
      // Half way in ratio, as the tolerance is one.
      absl::Status status = Try(std::sqrt(*outcome_.held * *outcome_.failed));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  bool Converged() const {
    if (!outcome_.held.has_value()) {
      return *outcome_.failed <= options_.lowest;
    }
    if (!outcome_.failed.has_value()) return *outcome_.held >= options_.highest;
    return *outcome_.failed <= *outcome_.held * (1 + options_.tolerance);
  }

  const RateSearchOptions& options_;
  const RateTrial& trial_;
  RateSearchOutcome outcome_;
};

}  // namespace

absl::StatusOr<RateSearchOutcome> SearchRate(const RateSearchOptions& options,
                                             const RateTrial& trial) {
  return RateSearch(options, trial).Run();
}

}  // namespace attn
