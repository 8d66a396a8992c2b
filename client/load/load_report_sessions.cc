#include "client/load/load_report_sessions.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/load_report_json.h"
#include "client/load/load_report_text.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

using SessionJson = nlohmann::ordered_json;

double ToMicros(int64_t nanos) {
  constexpr double kNanosPerMicro = 1e3;
  return static_cast<double>(nanos) / kNanosPerMicro;
}

// The steps of each place; null where it made none in the window.
SessionJson PlacesJson(const SessionTally& tally) {
  SessionJson list = SessionJson::array();
  for (const HdrHistogram& steps : tally.steps) {
    const bool measured = steps.count() > 0;
    const auto micros = [&](double percentile) {
      return measured
                 ? SessionJson(ToMicros(steps.ValueAtPercentile(percentile)))
                 : SessionJson();
    };
    list.push_back({{"steps", steps.count()},
                    {"median_us", micros(50)},
                    {"p99_us", micros(99)}});
  }
  return list;
}

SessionJson SpreadJson(const SessionTally& tally) {
  const StepSpread spread = SpreadOf(tally);
  if (spread.places == 0) return SessionJson();
  return {{"p99_over_median", spread.ratio},
          {"session", spread.place},
          {"median_us", ToMicros(spread.median)},
          {"p99_us", ToMicros(spread.p99)},
          {"fewest_steps", spread.fewest_steps}};
}

SessionJson WavesJson(const WaveTally& waves) {
  if (waves.steps == 0) return SessionJson();
  return {{"steps", waves.steps},
          {"mean", waves.mean()},
          {"share_of_ready", waves.share()}};
}

}  // namespace

nlohmann::ordered_json SessionsJson(const LoadResult& run,
                                    const SessionTally& tally) {
  return {{"opened", tally.opened},
          {"forked", tally.forked},
          {"closed", tally.closed},
          {"gone", tally.gone},
          {"left_open", tally.left},
          {"not_begun", tally.not_begun},
          {"lost", tally.lost},
          {"tokens", tally.tokens},
          {"tokens_per_s", run.RateOf(tally.tokens)},
          {"open_us", PercentilesJson(tally.open)},
          {"prefill_us", PercentilesJson(tally.prefill)},
          {"close_us", PercentilesJson(tally.close)},
          {"greatest_spread", SpreadJson(tally)},
          {"waves", WavesJson(tally.waves)},
          {"each", PlacesJson(tally)}};
}

std::string SessionsText(const LoadResult& run, const SessionTally& tally,
                         const std::string& name) {
  std::string text = absl::StrCat("\n", MicrosHeading());
  text += MicrosRow("open", tally.open);
  text += MicrosRow("first tokens", tally.prefill);
  text += MicrosRow("close", tally.close);
  absl::StrAppendFormat(
      &text,
      "\n  sessions%s: %d opened (%d forks), %d closed, %d gone, %d left open; "
      "%d lost, %d not begun\n",
      name.empty() ? "" : absl::StrCat(" of ", name), tally.opened,
      tally.forked, tally.closed, tally.gone, tally.left, tally.lost,
      tally.not_begun);
  absl::StrAppendFormat(&text, "  tokens    %10.1f/s\n",
                        run.RateOf(tally.tokens));
  const StepSpread spread = SpreadOf(tally);
  if (spread.places > 0) {
    absl::StrAppendFormat(
        &text,
        "  spread    %10.2f    p99 over median of the steps of session %d: %s "
        "over %s; %d steps at least in each of %d\n",
        spread.ratio, spread.place,
        FormatNanos(static_cast<double>(spread.p99)),
        FormatNanos(static_cast<double>(spread.median)), spread.fewest_steps,
        spread.places);
  }
  if (tally.waves.steps > 0) {
    absl::StrAppendFormat(
        &text,
        "  wave      %10.1f    steps started together on the mean, %.1f %% of "
        "those ready; %d steps waited for one\n",
        tally.waves.mean(), 100 * tally.waves.share(), tally.waves.steps);
  }
  return text;
}

std::string SessionsRow(const SessionTally& tally) {
  std::string row = absl::StrFormat("     sessions: %d opened, %d lost",
                                    tally.opened, tally.lost);
  const StepSpread spread = SpreadOf(tally);
  if (spread.places > 0) {
    absl::StrAppendFormat(&row, ", spread %.2f", spread.ratio);
  }
  if (tally.waves.steps > 0) {
    absl::StrAppendFormat(&row, ", wave %.1f (%.1f %% of those ready)",
                          tally.waves.mean(), 100 * tally.waves.share());
  }
  return row + "\n";
}

}  // namespace attn
