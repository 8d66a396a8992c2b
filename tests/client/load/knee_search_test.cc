// The knee of servers whose knee is known from a formula.
#include "client/load/knee_search.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/client/load/simulated_server.h"

namespace attn {
namespace {

constexpr int64_t kServiceNanos = 10'000'000;
constexpr double kCapacity = 1e9 / static_cast<double>(kServiceNanos);

// A new server for each run, so that no run inherits a queue.
absl::StatusOr<LoadResult> RunSimulated(const LoadOptions& options) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kServiceNanos);
  return RunLoad(options, server.Call(), timer);
}

KneeSearchOutcome Search(const LoadOptions& base, const std::string& slo,
                         const KneeSearchOptions& options = {}) {
  return SearchKnee(base, ParseSlo(slo).value(), options, RunSimulated,
                    RunSimulated)
      .value();
}

// Share of requests that wait for `wait` nanoseconds at most in a queue with
// Poisson arrivals, constant service and one server at utilisation `rho`:
// Erlang (1909), as in Kleinrock's Queueing Systems.
double ShareWithin(double rho, double wait) {
  const double t = wait / static_cast<double>(kServiceNanos);
  double sum = 0;
  double factorial = 1;
  for (int j = 0; j <= static_cast<int>(t); ++j) {
    if (j > 0) factorial *= j;
    const double x = rho * (j - t);
    sum += std::pow(x, j) / factorial * std::exp(-x);
  }
  return (1 - rho) * sum;
}

// The utilisation at which 99 % wait for `wait` at most.
double UtilisationFor(double wait) {
  double low = 0.01;
  double high = 0.99;
  for (int i = 0; i < 60; ++i) {
    const double rho = (low + high) / 2;
    (ShareWithin(rho, wait) >= 0.99 ? low : high) = rho;
  }
  return low;
}

TEST(KneeSearch, WithConstantArrivalsTheKneeIsTheCapacity) {
  // Below it nobody waits; 5 % above, the queue grows by 0.5 s in a window.
  const LoadOptions base{.arrivals = Arrivals::kConstant,
                         .duration = absl::Seconds(10),
                         .warmup = absl::Seconds(1)};
  const KneeSearchOutcome outcome = Search(base, "p99=20ms");
  ASSERT_TRUE(outcome.rates.held.has_value());
  EXPECT_TRUE(outcome.rates.converged);
  EXPECT_NEAR(*outcome.rates.held, kCapacity, 0.05 * kCapacity);
  EXPECT_NEAR(outcome.probed_rate, kCapacity, 0.05 * kCapacity);
}

TEST(KneeSearch, WithPoissonArrivalsItIsThatOfTheFormula) {
  // Long windows, since a 99th percentile of a queue settles slowly.
  const LoadOptions base{.arrivals = Arrivals::kPoisson,
                         .seed = 3,
                         .duration = absl::Seconds(600),
                         .warmup = absl::Seconds(10)};
  for (const int limit_ms : {30, 60, 120}) {
    const double wait = limit_ms * 1e6 - static_cast<double>(kServiceNanos);
    const double expected = UtilisationFor(wait) * kCapacity;
    const KneeSearchOutcome outcome = Search(
        base, "p99=" + std::to_string(limit_ms) + "ms", {.tolerance = 0.02});
    ASSERT_TRUE(outcome.rates.held.has_value());
    EXPECT_NEAR(*outcome.rates.held, expected, 0.05 * expected) << limit_ms;
  }
}

TEST(KneeSearch, AnSloBelowTheServiceTimeHasNoKnee) {
  const LoadOptions base{.duration = absl::Seconds(10)};
  const KneeSearchOutcome outcome = Search(base, "p50=9ms");
  EXPECT_FALSE(outcome.rates.held.has_value());
  // The probe showed it: the lowest rate, ten requests in a window, is the only
  // one that was tried.
  EXPECT_EQ(outcome.rates.failed, 1);
  EXPECT_EQ(outcome.rates.trials, 1);
}

TEST(KneeSearch, StaysInItsRange) {
  const LoadOptions base{.arrivals = Arrivals::kConstant,
                         .duration = absl::Seconds(10)};
  const KneeSearchOutcome outcome =
      Search(base, "max=1s", {.range = RateRange{.from = 5, .to = 40}});
  EXPECT_EQ(outcome.rates.held, 40);
  EXPECT_FALSE(outcome.rates.failed.has_value());
}

TEST(KneeSearch, ErrorsEndTheSearchOrFailTheRate) {
  const LoadOptions base{.duration = absl::Seconds(10)};
  const auto fails = [](const LoadOptions& options) {
    SimulatedTimer timer;
    SimulatedServer server(timer, kServiceNanos);
    for (int64_t i = 0; i < 10'000; ++i) {
      server.Fail(i, absl::StatusCode::kResourceExhausted);
    }
    return absl::StatusOr<LoadResult>(RunLoad(options, server.Call(), timer));
  };
  const Slo slo = ParseSlo("p99=1s").value();
  const auto outcome = SearchKnee(base, slo, {}, fails, fails);
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->rates.held.has_value());
  const auto gone = [](const LoadOptions&) {
    return absl::StatusOr<LoadResult>(absl::UnavailableError("gone"));
  };
  EXPECT_EQ(SearchKnee(base, slo, {}, gone, gone).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(SearchKnee(base, slo, {}, RunSimulated, gone).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace attn
