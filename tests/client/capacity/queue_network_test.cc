#include "client/capacity/queue_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "client/capacity/waiting_time.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int64_t kCalls = 200'000;
constexpr double kService = 0.01;

// Calls through one station of so many servers.
struct OneStation {
  int servers = 1;
  double utilisation = 0.7;
  bool exponential = true;

  double rate() const { return utilisation * servers / kService; }

  std::vector<QueuedCall> Run(QueueStation& station, uint64_t seed = 1) const {
    RandomNumbers services(seed + 1000);
    RandomNumbers arrivals(seed);
    QueueTraffic traffic;
    traffic.rate = rate();
    traffic.calls = kCalls;
    traffic.route = [&](std::vector<QueueVisit>& visits) {
      const double of_mean = exponential ? services.Exponential() : 1;
      visits = {{0, kService * of_mean}};
    };
    std::vector<QueueStation> stations = {station};
    auto calls = RunQueues(traffic, stations, arrivals);
    station = stations[0];
    return calls;
  }
};

double MeanSeconds(const std::vector<QueuedCall>& calls) {
  double sum = 0;
  for (const QueuedCall& call : calls) sum += call.seconds();
  return sum / static_cast<double>(calls.size());
}

TEST(QueueNetworkTest, AStationServesInOrderOnTheServerThatIsFreeFirst) {
  QueueStation station(2);
  EXPECT_EQ(station.Serve(0, 10), 10);
  EXPECT_EQ(station.Serve(1, 2), 3);
  EXPECT_EQ(station.Serve(2, 4), 7);    // waits for the second until 3
  EXPECT_EQ(station.Serve(2, 1), 8);    // the second again
  EXPECT_EQ(station.Serve(20, 1), 21);  // both are free
  EXPECT_EQ(station.busy_seconds(), 18);
  EXPECT_EQ(station.waited_seconds(), 1 + 5);
  EXPECT_EQ(station.served(), 5);
}

// M/M/1, M/M/4, M/D/1: the formulas are exact. The standard error of
// the mean of 200,000 calls of M/M/1 is 1.8 % at 0.7 (Whitt 1989).
TEST(QueueNetworkTest, WaitsAreThoseOfTheFormulas) {
  for (const OneStation& one :
       {OneStation{1, 0.7, true}, OneStation{4, 0.7, true},
        OneStation{1, 0.7, false}, OneStation{1, 0.3, false}}) {
    QueueStation station(one.servers);
    one.Run(station);
    const WaitingTime theory{one.servers, one.rate(), kService,
                             one.exponential ? 1.0 : 0.0};
    EXPECT_NEAR(station.waited_seconds() / kCalls / theory.mean_seconds(), 1,
                0.05)
        << one.servers << " " << one.utilisation << " " << one.exponential;
  }
}

// M/M/1: the time in the system is exponential with mean 1 / (mu - lambda).
TEST(QueueNetworkTest, QuantilesAreThoseOfTheDistribution) {
  QueueStation station(1);
  const OneStation one{1, 0.7, true};
  std::vector<double> seconds;
  for (const QueuedCall& call : one.Run(station)) {
    seconds.push_back(call.seconds());
  }
  const double mean = kService / (1 - 0.7);
  for (const double quantile : {0.5, 0.9, 0.99}) {
    EXPECT_NEAR(
        QuantileSeconds(seconds, quantile) / (-mean * std::log(1 - quantile)),
        1, 0.06)
        << quantile;
  }
}

// The mean number of calls inside, counted over time, is the rate at which they
// come times the mean time that they stay.
TEST(QueueNetworkTest, LittlesLawHolds) {
  QueueStation station(3);
  const OneStation one{3, 0.8, true};
  const auto calls = one.Run(station);
  std::vector<std::pair<double, int>> changes;
  for (const QueuedCall& call : calls) {
    changes.emplace_back(call.arrival, 1);
    changes.emplace_back(call.departure, -1);
  }
  std::sort(changes.begin(), changes.end());
  double area = 0;
  double before = 0;
  int64_t inside = 0;
  for (const auto& [at, change] : changes) {
    area += static_cast<double>(inside) * (at - before);
    before = at;
    inside += change;
    ASSERT_GE(inside, 0);
  }
  EXPECT_EQ(inside, 0);
  EXPECT_NEAR(area / before / (one.rate() * MeanSeconds(calls)), 1, 0.02);
}

TEST(QueueNetworkTest, EveryCallIsServedOnceAtEachOfItsStops) {
  std::vector<QueueStation> stations(3, QueueStation(1));
  RandomNumbers random(1);
  int64_t routed = 0;
  QueueTraffic traffic;
  traffic.rate = 50;
  traffic.calls = 10'000;
  traffic.route = [&](std::vector<QueueVisit>& visits) {
    // Every third call passes the third station too.
    visits = {{0, kService}, {1, kService / 2}};
    if (routed++ % 3 == 0) visits.push_back({2, kService});
  };
  const auto calls = RunQueues(traffic, stations, random);
  EXPECT_EQ(routed, 10'000);
  EXPECT_EQ(stations[0].served(), 10'000);
  EXPECT_EQ(stations[1].served(), 10'000);
  EXPECT_EQ(stations[2].served(), 3'334);
  EXPECT_NEAR(stations[0].busy_seconds(), 10'000 * kService, 1e-6);
  double before = 0;
  for (const QueuedCall& call : calls) {
    EXPECT_GE(call.arrival, before);
    EXPECT_GE(call.seconds(), 1.5 * kService - 1e-9);
    before = call.arrival;
  }
}

// What leaves M/M/c is Poisson again (Burke 1956): times in the system add up.
TEST(QueueNetworkTest, QueuesInARowAddUp) {
  std::vector<QueueStation> stations = {QueueStation(1), QueueStation(2)};
  RandomNumbers services(2);
  RandomNumbers arrivals(1);
  QueueTraffic traffic;
  traffic.rate = 60;
  traffic.calls = kCalls;
  traffic.route = [&](std::vector<QueueVisit>& visits) {
    visits = {{0, kService * services.Exponential()},
              {1, 2 * kService * services.Exponential()}};
  };
  const auto calls = RunQueues(traffic, stations, arrivals);
  const WaitingTime first{1, 60, kService, 1};
  const WaitingTime second{2, 60, 2 * kService, 1};
  EXPECT_NEAR(MeanSeconds(calls) / (first.mean_seconds() + kService +
                                    second.mean_seconds() + 2 * kService),
              1, 0.04);
}

TEST(QueueNetworkTest, TheSameSeedGivesTheSame) {
  QueueStation a(2);
  QueueStation b(2);
  QueueStation c(2);
  const OneStation one{2, 0.5, true};
  const double seconds = MeanSeconds(one.Run(a, 3));
  EXPECT_EQ(seconds, MeanSeconds(one.Run(b, 3)));
  EXPECT_NE(seconds, MeanSeconds(one.Run(c, 4)));
}

TEST(QueueNetworkTest, AQuantileIsOneOfTheValues) {
  EXPECT_EQ(QuantileSeconds({}, 0.5), 0);
  EXPECT_EQ(QuantileSeconds({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(QuantileSeconds({3, 1, 2}, 0), 1);
  EXPECT_EQ(QuantileSeconds({3, 1, 2}, 1), 3);
  std::vector<double> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 1.0);
  EXPECT_EQ(QuantileSeconds(hundred, 0.99), 99);
}

}  // namespace
}  // namespace attn
