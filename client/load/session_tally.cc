#include "client/load/session_tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

// 1.6 %: a place's histogram must be small, for there are thousands.
constexpr int kPlaceDigits = 7;

}  // namespace

void WaveTally::Add(int64_t started, int64_t of_ready) {
  ++steps;
  waves += 1 / static_cast<double>(started);
  ready += static_cast<double>(of_ready) / static_cast<double>(started);
}

double WaveTally::mean() const {
  return waves > 0 ? static_cast<double>(steps) / waves : 0;
}

double WaveTally::share() const {
  return ready > 0 ? static_cast<double>(steps) / ready : 0;
}

SessionTally::SessionTally(size_t places)
    : steps(places, HdrHistogram(HdrHistogram::kOneHour, kPlaceDigits)) {}

void SessionTally::Merge(const SessionTally& other) {
  open.Merge(other.open);
  close.Merge(other.close);
  prefill.Merge(other.prefill);
  steps.insert(steps.end(), other.steps.begin(), other.steps.end());
  waves.steps += other.waves.steps;
  waves.waves += other.waves.waves;
  waves.ready += other.waves.ready;
  opened += other.opened;
  forked += other.forked;
  not_begun += other.not_begun;
  lost += other.lost;
  closed += other.closed;
  gone += other.gone;
  left += other.left;
  tokens += other.tokens;
}

StepSpread SpreadOf(const SessionTally& tally) {
  StepSpread spread;
  for (size_t place = 0; place < tally.steps.size(); ++place) {
    const HdrHistogram& steps = tally.steps[place];
    if (steps.count() == 0) continue;
    spread.fewest_steps = spread.places == 0
                              ? steps.count()
                              : std::min(spread.fewest_steps, steps.count());
    ++spread.places;
    const int64_t median = std::max<int64_t>(1, steps.ValueAtPercentile(50));
    const int64_t p99 = steps.ValueAtPercentile(99);
    const double ratio = static_cast<double>(p99) / static_cast<double>(median);
    if (ratio <= spread.ratio) continue;
    spread.ratio = ratio;
    spread.place = place;
    spread.median = median;
    spread.p99 = p99;
  }
  return spread;
}

std::vector<std::string> SessionFailures(const SessionTally& tally,
                                         double most_spread) {
  std::vector<std::string> failures;
  if (tally.lost > 0) {
    failures.push_back(
        absl::StrCat(tally.lost, " of ", tally.opened, " sessions were lost"));
  }
  if (tally.not_begun > 0) {
    failures.push_back(
        absl::StrCat(tally.not_begun, " sessions could not be opened"));
  }
  if (tally.left > 0) {
    failures.push_back(
        absl::StrCat(tally.left, " sessions could not be closed"));
  }
  const StepSpread spread = SpreadOf(tally);
  if (most_spread > 0 && spread.ratio > most_spread) {
    failures.push_back(absl::StrFormat(
        "p99 of the steps of session %d is %s, %.2f times its median; %g is "
        "allowed",
        spread.place, FormatNanos(static_cast<double>(spread.p99)),
        spread.ratio, most_spread));
  }
  return failures;
}

}  // namespace attn
