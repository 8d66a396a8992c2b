#include "client/capacity/waiting_time.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// As the formula stands in textbooks, with factorials.
double PlainErlangC(int servers, double erlangs) {
  double term = 1;
  double sum = 0;
  for (int i = 0; i < servers; ++i) {
    sum += term;
    term *= erlangs / (i + 1);
  }
  const double busy = term * servers / (servers - erlangs);
  return busy / (sum + busy);
}

TEST(WaitingTimeTest, ErlangCIsItsFormula) {
  EXPECT_DOUBLE_EQ(ErlangC(1, 0.3), 0.3);
  EXPECT_DOUBLE_EQ(ErlangC(2, 1), 1.0 / 3);
  for (const int servers : {1, 2, 5, 20, 100}) {
    for (const double share : {0.01, 0.3, 0.7, 0.99}) {
      const double erlangs = share * servers;
      EXPECT_NEAR(ErlangC(servers, erlangs), PlainErlangC(servers, erlangs),
                  1e-12);
    }
  }
  EXPECT_EQ(ErlangC(3, 0), 0);
  EXPECT_EQ(ErlangC(3, 3), 1);
}

// rho / (1 - rho) services, and half of that if all take as long.
TEST(WaitingTimeTest, OneServerIsPollaczekAndKhinchine) {
  WaitingTime wait{.servers = 1, .arrivals = 80, .service_seconds = 0.01};
  EXPECT_NEAR(wait.mean_seconds(), 0.01 * 4 / 2, 1e-12);
  wait.variation = 1;
  EXPECT_NEAR(wait.mean_seconds(), 0.01 * 4, 1e-12);
  wait.variation = 3;
  EXPECT_NEAR(wait.mean_seconds(), 0.01 * 8, 1e-12);
}

// Of M/M/1: P(W > t) = rho exp(-(mu - lambda) t).
TEST(WaitingTimeTest, QuantilesOfExponentialServiceAreExact) {
  const WaitingTime wait{1, 80, 0.01, 1};
  const double t = wait.quantile_seconds(0.99);
  EXPECT_NEAR(0.8 * std::exp(-(100 - 80) * t), 0.01, 1e-12);
  EXPECT_EQ(wait.quantile_seconds(0.1), 0);
}

TEST(WaitingTimeTest, BeyondItsServersAQueueHasNoEnd) {
  const WaitingTime full{2, 200, 0.01, 1};
  EXPECT_EQ(full.utilisation(), 1);
  EXPECT_EQ(full.mean_seconds(), kInfinite);
  EXPECT_EQ(full.quantile_seconds(0.5), kInfinite);
  const WaitingTime idle{2, 0, 0.01, 1};
  EXPECT_EQ(idle.mean_seconds(), 0);
  EXPECT_EQ(idle.quantile_seconds(0.99), 0);
}

TEST(WaitingTimeTest, MoreArrivalsWaitLonger) {
  double before = 0;
  for (double arrivals = 10; arrivals < 400; arrivals += 10) {
    const WaitingTime wait{4, arrivals, 0.01, 0.5};
    EXPECT_GT(wait.mean_seconds(), before);
    before = wait.mean_seconds();
  }
}

}  // namespace
}  // namespace attn
