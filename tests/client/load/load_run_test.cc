#include "client/load/load_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stop_token>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/load/simulated_server.h"

namespace attn {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1000 * kMillisecond;

LoadOptions Open(double rate) {
  return {.rate = rate,
          .arrivals = Arrivals::kConstant,
          .duration = absl::Seconds(10),
          .warmup = absl::Seconds(1)};
}

LoadOptions Closed(int callers) {
  return {.callers = callers,
          .duration = absl::Seconds(10),
          .warmup = absl::Seconds(1)};
}

// A server of 0.1 ms that stalls once, for a second, in the window.
class StallTest : public ::testing::Test {
 protected:
  StallTest() { server_.StallOnce(5 * kSecond, kSecond); }

  SimulatedTimer timer_;
  SimulatedServer server_{timer_, kMillisecond / 10};
};

TEST_F(StallTest, OpenLoopShowsTheStallInItsTail) {
  const LoadResult result = RunLoad(Open(1000), server_.Call(), timer_);
  EXPECT_GT(result.latency.ValueAtPercentile(99), 800 * kMillisecond);
  EXPECT_LT(result.latency.ValueAtPercentile(50), kMillisecond);
  EXPECT_EQ(result.latency.count(), 10'000);
  EXPECT_TRUE(result.KeptUp());
}

TEST_F(StallTest, LatencyKeepsTheStallWhenCallsAreHeldBack) {
  LoadOptions options = Open(1000);
  options.max_in_flight = 1;
  const LoadResult result = RunLoad(options, server_.Call(), timer_);
  EXPECT_GT(result.latency.ValueAtPercentile(99), 800 * kMillisecond);
  // What a clock that starts at the actual send would say.
  EXPECT_LT(result.service.ValueAtPercentile(99), kMillisecond);
  EXPECT_GE(result.held_back, 1000);
  EXPECT_EQ(server_.most_in_flight(), 1);
  EXPECT_EQ(result.latency.count(), 10'000);
}

TEST_F(StallTest, ClosedLoopHidesTheStallFromItsTail) {
  const LoadResult result = RunLoad(Closed(1), server_.Call(), timer_);
  EXPECT_LT(result.latency.ValueAtPercentile(99.9), kMillisecond);
  EXPECT_GE(result.latency.max(), kSecond);
}

TEST(LoadRun, AStallOfTheSenderIsSlipAndLatencyButNotService) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond / 10);
  timer.StallSender(5 * kSecond, 6 * kSecond);
  LoadOptions options = Open(100);
  const LoadResult result = RunLoad(options, server.Call(), timer);
  EXPECT_GT(result.slip.max(), 900 * kMillisecond);
  EXPECT_GE(result.latency.max(), result.slip.max());
  EXPECT_EQ(result.slip.ValueAtPercentile(50), 0);
  // 100 calls at once, 0.1 ms each.
  EXPECT_LE(result.service.max(), 11 * kMillisecond);
}

TEST(LoadRun, OpenLoopSendsOnScheduleWhileTheServerIsSlow) {
  SimulatedTimer timer;
  SimulatedServer server(timer, 20 * kMillisecond);
  LoadOptions options = Open(100);
  options.duration = absl::Seconds(2);
  options.warmup = absl::ZeroDuration();
  const int64_t start = timer.Now();
  const LoadResult result = RunLoad(options, server.Call(), timer);
  ASSERT_EQ(server.arrivals().size(), 200u);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(server.arrivals()[i],
              start + static_cast<int64_t>(i) * 10 * kMillisecond);
  }
  EXPECT_EQ(result.slip.max(), 0);
}

TEST(LoadRun, OverloadIsReportedAsTheServersCapacity) {
  SimulatedTimer timer;
  SimulatedServer server(timer, 20 * kMillisecond);  // 50 per second.
  const LoadResult result = RunLoad(Open(100), server.Call(), timer);
  EXPECT_DOUBLE_EQ(result.offered_rate(), 100);
  EXPECT_NEAR(result.achieved_rate(), 50, 0.2);
  EXPECT_FALSE(result.KeptUp());
}

TEST(LoadRun, OverloadOfTheWarmUpDoesNotUseUpTheWindow) {
  SimulatedTimer timer;
  SimulatedServer server(timer, 20 * kMillisecond);  // 50 per second.
  LoadOptions options = Open(1000);
  options.warmup = absl::Seconds(5);
  options.max_in_flight = 10;
  const LoadResult result = RunLoad(options, server.Call(), timer);
  EXPECT_DOUBLE_EQ(result.offered_rate(), 1000);
  EXPECT_NEAR(result.achieved_rate(), 50, 1);
  EXPECT_GT(result.unsent, 9000);
  EXPECT_LE(result.warmup_requests, 5 * 50 + 10);
}

TEST(LoadRun, ServerThatKeepsUpAchievesWhatWasOffered) {
  for (const Arrivals arrivals : {Arrivals::kConstant, Arrivals::kPoisson}) {
    SimulatedTimer timer;
    // Half loaded. No warm-up, so that the first latencies are in the window.
    SimulatedServer server(timer, 5 * kMillisecond);
    LoadOptions options = Open(100);
    options.arrivals = arrivals;
    options.warmup = absl::ZeroDuration();
    const LoadResult result = RunLoad(options, server.Call(), timer);
    EXPECT_TRUE(result.KeptUp()) << Name(arrivals);
    EXPECT_EQ(result.answered, result.offered);
  }
}

TEST(LoadRun, RequestsThatCannotBeSentByTheEndCountWithTheirWait) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  // From 5 s on the server answers nothing before 40 s.
  server.StallOnce(5 * kSecond, 35 * kSecond);
  LoadOptions options = Open(100);
  options.max_in_flight = 10;
  const LoadResult result = RunLoad(options, server.Call(), timer);
  EXPECT_EQ(result.offered, 1000);
  EXPECT_EQ(result.sent + result.unsent, result.offered);
  // The window lies between 1 s and 11 s; 10 requests fill the flight.
  EXPECT_NEAR(static_cast<double>(result.unsent), 590, 2);
  EXPECT_EQ(result.latency.count(), 1000);
  // 59 % of the requests met the stall; the one at the median was due at 6 s
  // and had waited until 11.1 s.
  EXPECT_GT(result.latency.ValueAtPercentile(50), kSecond / 10);
  EXPECT_GT(result.latency.ValueAtPercentile(99), 5 * kSecond);
  EXPECT_FALSE(result.KeptUp());
}

TEST(LoadRun, WarmUpIsSentButNotMeasured) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  // The only slow calls are in the warm-up.
  server.StallOnce(0, kSecond / 2);
  const LoadResult result = RunLoad(Open(100), server.Call(), timer);
  EXPECT_EQ(result.warmup_requests, 100);
  EXPECT_EQ(result.offered, 1000);
  EXPECT_EQ(server.arrivals().size(), 1100u);
  EXPECT_LE(result.latency.max(), kMillisecond);
}

TEST(LoadRun, ClosedLoopKeepsItsCallersInFlight) {
  SimulatedTimer timer;
  SimulatedServer server(timer, 10 * kMillisecond);
  const LoadResult result = RunLoad(Closed(4), server.Call(), timer);
  EXPECT_EQ(server.most_in_flight(), 4);
  // One at a time, 10 ms each: 100 per second; each caller waits for four.
  EXPECT_NEAR(result.achieved_rate(), 100, 0.5);
  EXPECT_NEAR(result.latency.mean(), 40e6, 0.2e6);
  EXPECT_EQ(result.slip.count(), 0);
  EXPECT_TRUE(result.KeptUp());
}

TEST(LoadRun, ErrorsAreCountedByCodeAndLowerWhatWasAchieved) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  // Sequence numbers start in the warm-up of 100.
  for (int64_t i = 200; i < 230; ++i) {
    server.Fail(i, absl::StatusCode::kResourceExhausted);
  }
  server.Fail(300, absl::StatusCode::kDeadlineExceeded);
  server.Fail(10, absl::StatusCode::kInternal);
  const LoadResult result = RunLoad(Open(100), server.Call(), timer);
  EXPECT_THAT(result.errors,
              ::testing::ElementsAre(
                  ::testing::Pair(absl::StatusCode::kDeadlineExceeded, 1),
                  ::testing::Pair(absl::StatusCode::kResourceExhausted, 30)));
  EXPECT_EQ(result.error_count(), 31);
  EXPECT_EQ(result.answered, 969);
  EXPECT_FALSE(result.KeptUp());
  // Quick refusals do not improve the latency; calls out of time count.
  EXPECT_EQ(result.latency.count(), 970);
}

TEST(LoadRun, ServersOwnTimesComeFromTheAnswers) {
  SimulatedTimer timer;
  SimulatedServer server(timer, 10 * kMillisecond);
  const LoadResult result = RunLoad(Closed(2), server.Call(), timer);
  EXPECT_EQ(result.server_compute.count(), result.answered);
  EXPECT_NEAR(result.server_compute.mean(), 10e6, 1);
  EXPECT_NEAR(result.server_queue.mean(), 10e6, 0.2e6);
}

TEST(LoadRun, ClassesAreMeasuredApartAndAddUpToTheTotal) {
  for (const bool open : {true, false}) {
    SimulatedTimer timer;
    SimulatedServer server(timer, kMillisecond);
    LoadOptions options = open ? Open(100) : Closed(2);
    options.weights = {3, 1};
    options.seed = 4;
    // After the warm-up of 100 or 1000 calls.
    server.Fail(open ? 500 : 5000, absl::StatusCode::kResourceExhausted);
    const LoadResult result = RunLoad(options, server.Call(), timer);
    ASSERT_EQ(result.classes.size(), 2u);
    int64_t offered = 0;
    int64_t latencies = 0;
    for (const CallTally& tally : result.classes) {
      offered += tally.offered;
      latencies += tally.latency.count();
      EXPECT_EQ(tally.server_compute.count(), tally.answered);
    }
    EXPECT_EQ(offered, result.offered);
    EXPECT_EQ(latencies, result.latency.count());
    EXPECT_EQ(result.error_count(), 1);
    // Of the warm-up too, in the order in which they were sent.
    const auto second = static_cast<double>(
        std::count(server.classes().begin(), server.classes().end(), 1));
    const auto all = static_cast<double>(server.classes().size());
    EXPECT_NEAR(second, all / 4, 5 * std::sqrt(all * 0.25 * 0.75));
  }
}

TEST(LoadRun, ASlowClassBesideAFastOneAchievesWhatWasOffered) {
  SimulatedTimer timer;
  // Keeps up with both, at once: answers come after 1 ms or 5 s.
  const LoadCall call = [&timer](const LoadRequest& request,
                                 const CallDone& done) {
    const int64_t takes = request.call_class == 0 ? kMillisecond : 5 * kSecond;
    timer.At(timer.Now() + takes, [done] { done({}); });
  };
  LoadOptions options = Open(100);
  options.weights = {1, 1};
  const LoadResult result = RunLoad(options, call, timer);
  EXPECT_TRUE(result.KeptUp());
  EXPECT_EQ(result.answered_in_time, 1000);
  for (const CallTally& tally : result.classes) {
    EXPECT_EQ(tally.answered_in_time, tally.offered);
  }
}

TEST(LoadRun, ASingleClassIsTheTotalAlone) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  LoadOptions options = Open(100);
  options.weights = {2};
  const LoadResult result = RunLoad(options, server.Call(), timer);
  EXPECT_TRUE(result.classes.empty());
  EXPECT_EQ(result.offered, 1000);
}

TEST(LoadRun, UnsentRequestsBelongToTheirClass) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kSecond);
  LoadOptions options = Open(100);
  options.weights = {1, 1};
  options.max_in_flight = 1;
  const LoadResult result = RunLoad(options, server.Call(), timer);
  int64_t unsent = 0;
  for (const CallTally& tally : result.classes) {
    EXPECT_GT(tally.unsent, 400);
    EXPECT_EQ(tally.sent + tally.unsent, tally.offered);
    unsent += tally.unsent;
  }
  EXPECT_EQ(unsent, result.unsent);
}

TEST(LoadRun, WhatTheFirstFailedCallSaidIsKept) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  server.Fail(200, absl::StatusCode::kUnavailable);
  const LoadResult result = RunLoad(Open(100), server.Call(), timer);
  EXPECT_EQ(result.first_errors.at(absl::StatusCode::kUnavailable),
            "told to fail");
}

TEST_F(StallTest, TheTimelineSaysWhen) {
  const LoadResult result = RunLoad(Open(1000), server_.Call(), timer_);
  ASSERT_EQ(result.timeline.size(), 10u);
  EXPECT_GT(result.timeline[4].max, 990 * kMillisecond);
  for (size_t i = 0; i < result.timeline.size(); ++i) {
    EXPECT_EQ(result.timeline[i].requests, 1000);
    // The stall touches the seconds beside it too: where it begins, and where
    // its queue is worked off.
    const bool far = i < 3 || i > 5;
    if (far) {
      EXPECT_LT(result.timeline[i].max, kMillisecond) << i;
    }
  }
}

TEST(LoadRun, AMonitorSeesTheRunWhileItGoesOn) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  LoadMonitor monitor;
  EXPECT_FALSE(monitor.Look().has_value());
  const int64_t start = timer.Now();
  std::optional<LoadProgress> warming;
  std::optional<LoadProgress> measuring;
  timer.At(start + kSecond / 2, [&] { warming = monitor.Look(); });
  timer.At(start + 6 * kSecond, [&] { measuring = monitor.Look(); });
  RunLoad(Open(100), server.Call(), timer, &monitor);
  ASSERT_TRUE(warming.has_value());
  EXPECT_TRUE(warming->warming_up);
  EXPECT_EQ(warming->offered, 0);
  ASSERT_TRUE(measuring.has_value());
  EXPECT_FALSE(measuring->warming_up);
  EXPECT_NEAR(measuring->seconds_left, 5, 0.01);
  EXPECT_NEAR(measuring->window_seconds, 5, 0.01);
  EXPECT_NEAR(static_cast<double>(measuring->answered), 500, 2);
  EXPECT_NEAR(static_cast<double>(measuring->p99), 1e6, 1e6 / 32);
  EXPECT_FALSE(monitor.Look().has_value());
}

TEST(LoadRun, CpuTimeIsThatOfTheWindow) {
  SimulatedTimer timer;  // Uses a quarter of a core.
  SimulatedServer server(timer, kMillisecond);
  EXPECT_NEAR(RunLoad(Open(100), server.Call(), timer).cpu_seconds, 2.5, 0.05);
  EXPECT_NEAR(RunLoad(Closed(1), server.Call(), timer).cpu_seconds, 2.5, 0.05);
}

TEST(LoadRun, AStopEndsTheWindowAndWhatWasSentIsAnswered) {
  for (const LoadOptions& options : {Open(100), Closed(3)}) {
    SimulatedTimer timer;
    SimulatedServer server(timer, kMillisecond);
    std::stop_source stop;
    const int64_t stop_at = timer.Now() + 4 * kSecond;
    timer.At(stop_at, [&stop] { stop.request_stop(); });
    const LoadResult result =
        RunLoad(options, server.Call(), timer, nullptr, stop.get_token());
    // Of ten seconds after one of warm-up, three.
    EXPECT_NEAR(result.window_seconds, 3, 0.02);
    EXPECT_EQ(result.answered, result.offered);
    EXPECT_LE(server.arrivals().back(), stop_at);
    EXPECT_GT(server.arrivals().back(), stop_at - 20 * kMillisecond);
    EXPECT_TRUE(result.KeptUp());
  }
}

TEST(LoadRun, ARequestSaysWhenItWasMeantAndWhetherItCounts) {
  SimulatedTimer timer;
  SimulatedServer server(timer, kMillisecond);
  const LoadCall serve = server.Call();
  int64_t measured = 0;
  const int64_t start = timer.Now();
  const LoadResult result = RunLoad(
      Open(100),
      [&](const LoadRequest& request, const CallDone& done) {
        EXPECT_LE(request.intended, timer.Now());
        EXPECT_EQ(request.measured, request.intended >= start + kSecond);
        measured += request.measured ? 1 : 0;
        serve(request, done);
      },
      timer);
  EXPECT_EQ(measured, result.sent);
}

TEST(LoadRun, ErrorsAreCountedByTheReasonThatTheyName) {
  SimulatedTimer timer;
  int64_t calls = 0;
  const LoadResult result = RunLoad(
      Open(10),
      [&](const LoadRequest& request, const CallDone& done) {
        CallOutcome outcome{.code = absl::StatusCode::kNotFound};
        if (request.measured && calls++ % 2 == 0) outcome.reason = "GONE";
        done(outcome);
      },
      timer);
  EXPECT_EQ(result.errors.at(absl::StatusCode::kNotFound), 100);
  EXPECT_EQ(result.errors_by_reason.at("GONE"), 50);
  EXPECT_EQ(result.errors_by_reason.size(), 1U);
}

}  // namespace
}  // namespace attn
