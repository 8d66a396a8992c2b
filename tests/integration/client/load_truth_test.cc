// The load tester tells the truth: a real server that hangs for a second is in
// its percentiles, and a closed loop would have hidden it.
#include <chrono>
#include <thread>

#include "client/load/load_run.h"
#include "client/load/server_target.h"
#include "gtest/gtest.h"
#include "tests/integration/memory/server_process.h"

namespace attn {
namespace {

constexpr double kMillis = 1e6;

class LoadTruthTest : public ::testing::Test {
 protected:
  // Runs the load for 5 s and stops the server for one of them.
  LoadResult RunWithAStall(LoadOptions options) {
    options.duration = absl::Seconds(5);
    options.warmup = absl::Milliseconds(500);
    auto target = ServerTarget::Create(
        {.address = server_.address(), .verify_every = 10}, {Tiny()});
    EXPECT_TRUE(target.ok()) << target.status();
    EXPECT_TRUE((*target)->Probe().ok());
    LoadMonitor monitor;
    MonotonicTimer timer;
    std::thread staller([&] { StallIn(monitor); });
    LoadResult result = RunLoad(options, (*target)->Call(), timer, &monitor);
    staller.join();
    const Verification found = (*target)->FinishVerification().at(0);
    EXPECT_GT(found.verified, 0);
    EXPECT_EQ(found.mismatches, 0) << found.first_mismatch;
    return result;
  }

  static double Millis(const HdrHistogram& histogram, double percentile) {
    return static_cast<double>(histogram.ValueAtPercentile(percentile)) /
           kMillis;
  }

 private:
  static CallClass Tiny() {
    CallClass tiny;
    tiny.call.shape = ParseCallShape("1,2,2,8,8,16").value();
    return tiny;
  }

  // Once a second of the window has passed, for a second.
  void StallIn(const LoadMonitor& monitor) {
    for (;;) {
      const auto progress = monitor.Look();
      if (progress.has_value() && progress->window_seconds >= 1) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    server_.Freeze();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    server_.Thaw();
  }

  ServerProcess server_{{"--compute-threads=1"}};
};

// 1000 requests, 200 of them due while the server hangs. The k-th of these
// waits for 1 s - k / 200 s, so that the ten that lie above p99 have waited for
// 950 ms or more.
TEST_F(LoadTruthTest, AnOpenLoopShowsAStallOfASecondInItsP99) {
  const LoadResult result =
      RunWithAStall({.rate = 200, .arrivals = Arrivals::kConstant});
  EXPECT_EQ(result.offered, 1000);
  EXPECT_EQ(result.error_count(), 0);
  EXPECT_GE(Millis(result.latency, 99), 900);
  // The time line says when: in the second or third second.
  int64_t longest = 0;
  size_t where = 0;
  for (size_t i = 0; i < result.timeline.size(); ++i) {
    if (result.timeline[i].max <= longest) continue;
    longest = result.timeline[i].max;
    where = i;
  }
  EXPECT_GE(static_cast<double>(longest) / kMillis, 900);
  EXPECT_GE(where, 1u);
}

// Independent arrivals: 10 of about 200 that meet the stall lie above p99.
TEST_F(LoadTruthTest, SoDoesOneWithPoissonArrivals) {
  const LoadResult result =
      RunWithAStall({.rate = 200, .arrivals = Arrivals::kPoisson, .seed = 1});
  EXPECT_GE(Millis(result.latency, 99), 500);
}

// With a limit of calls in flight, requests wait here instead of at the server:
// from the actual send most of the stall is gone, from the intended it is not.
TEST_F(LoadTruthTest, HoldingRequestsBackDoesNotHideTheStall) {
  const LoadResult result = RunWithAStall(
      {.rate = 200, .arrivals = Arrivals::kConstant, .max_in_flight = 2});
  EXPECT_GT(result.held_back, 100);
  EXPECT_GE(Millis(result.latency, 99), 900);
  EXPECT_LE(Millis(result.service, 99), 450);
}

// One caller meets it once among hundreds of calls.
TEST_F(LoadTruthTest, AClosedLoopHidesTheStallFromItsP99) {
  const LoadResult result = RunWithAStall({.callers = 1});
  ASSERT_GT(result.latency.count(), 200);
  EXPECT_GE(Millis(result.latency, 100), 900);
  EXPECT_LE(Millis(result.latency, 99), 450);
}

}  // namespace
}  // namespace attn
