#include "client/capacity/replica_sweep.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/capacity/queue_network.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr double kMedian = 0.5;
constexpr int64_t kCallsPerReplica = 300;
// Of the calls the first, which find empty queues.
constexpr int64_t kWarmUpShare = 5;

// Chooses in proportion to weights. A value.
class WeightedChoice {
 public:
  template <typename Weights, typename Weight>
  WeightedChoice(const Weights& weights, Weight weight) {
    double sum = 0;
    for (const auto& one : weights) {
      sum += static_cast<double>(weight(one));
      sums_.push_back(sum);
    }
  }
  size_t Choose(RandomNumbers& random) const {
    const auto found = std::lower_bound(sums_.begin(), sums_.end(),
                                        random.Uniform() * sums_.back());
    return static_cast<size_t>(std::distance(sums_.begin(), found));
  }

 private:
  std::vector<double> sums_;
};

// Stations of a cluster: of each replica its network in, cores, and network
// out; then the proxy's cores and its network. Thread-compatible.
class ClusterTraffic {
 public:
  ClusterTraffic(const std::vector<int64_t>& held,
                 const std::vector<DemandClass>& classes, double variation,
                 RandomNumbers& random)
      : replica_(held, [](int64_t sessions) { return sessions; }),
        kind_(classes,
              [](const DemandClass& one) { return one.calls_per_second; }),
        classes_(classes),
        variation_(variation),
        random_(random) {}

  static std::vector<QueueStation> Stations(size_t replicas, int cores,
                                            int proxy_cores) {
    std::vector<QueueStation> stations;
    for (size_t i = 0; i < replicas; ++i) {
      stations.emplace_back(1);
      stations.emplace_back(cores);
      stations.emplace_back(1);
    }
    stations.emplace_back(proxy_cores);
    stations.emplace_back(1);
    return stations;
  }

  // The stops of a call at its replica, after those that there are.
  const CallDemand& Add(double bytes_per_second,
                        std::vector<QueueVisit>& visits) {
    const size_t first = kStations * replica_.Choose(random_);
    const size_t kind = kind_.Choose(random_);
    is_step_.push_back(kind == 0);
    const CallDemand& cost = classes_[kind].cost;
    visits.push_back({first, cost.bytes_in / bytes_per_second});
    visits.push_back(
        {first + 1, cost.service_seconds * random_.LogNormal(variation_)});
    visits.push_back({first + 2, cost.bytes_out / bytes_per_second});
    return cost;
  }

  // Of steps of one token, once the queues have filled.
  std::vector<double> StepSeconds(const std::vector<QueuedCall>& calls) const {
    std::vector<double> seconds;
    for (size_t i = calls.size() / kWarmUpShare; i < calls.size(); ++i) {
      if (is_step_[i]) seconds.push_back(calls[i].seconds());
    }
    return seconds;
  }

  static constexpr size_t kStations = 3;

 private:
  WeightedChoice replica_;
  WeightedChoice kind_;
  const std::vector<DemandClass>& classes_;
  double variation_;
  RandomNumbers& random_;
  std::vector<bool> is_step_;
};

int64_t Sum(const std::vector<int64_t>& held) {
  return std::accumulate(held.begin(), held.end(), int64_t{0});
}

double ProxySeconds(const MachineProfile& machine, const CallDemand& cost) {
  return machine.proxy_call_seconds +
         (cost.bytes_in + cost.bytes_out) * machine.proxy_byte_seconds;
}

}  // namespace

absl::Status CheckSweep(const SweepSetting& setting, const char* prefix) {
  constexpr int kMostCores = 4096;
  if (setting.proxy_cores < 1 || setting.proxy_cores > kMostCores) {
    return FieldError(absl::StrCat(prefix, "proxy-cores"),
                      absl::StrCat(setting.proxy_cores), "1 to 4096");
  }
  constexpr double kLeastBits = 1e6;
  constexpr double kMostBits = 1e15;
  const double bits = setting.proxy_bits_per_second;
  if (!(bits >= kLeastBits && bits <= kMostBits)) {
    return FieldError(absl::StrCat(prefix, "proxy-gbps"),
                      absl::StrCat(bits / 1e9), "0.001 to 1e+06");
  }
  return absl::OkStatus();
}

ReplicaSweep::ReplicaSweep(const MachineProfile& machine,
                           const SessionWorkload& workload,
                           const ReplicaSetting& replica,
                           const SweepSetting& setting)
    : machine_(machine),
      setting_(setting),
      model_(machine, workload, replica),
      classes_(DemandClasses(machine, workload, model_.site())) {}

ReplicaModel::Most ReplicaSweep::ProxyMost() const {
  const SessionLoad& load = model_.session();
  const double share = model_.setting().most_utilisation;
  const double by_cores =
      share * setting_.proxy_cores / ProxySeconds(machine_, load.mean);
  const double by_network = share * setting_.proxy_bits_per_second /
                            kBitsPerByte /
                            (load.mean.bytes_in + load.mean.bytes_out);
  const double calls = std::min(by_cores, by_network);
  return {static_cast<int64_t>(calls / load.calls_per_second),
          by_cores < by_network ? CapacityLimit::kProxyCores
                                : CapacityLimit::kProxyNetwork};
}

absl::StatusOr<SweepRow> ReplicaSweep::Row(int64_t replicas) const {
  const ReplicaModel::Most most = model_.MostSessions();
  const ReplicaModel::Most proxy = ProxyMost();
  if (most.sessions == 0 || proxy.sessions == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "not even one session fits: ",
        std::string(NameOf(most.sessions == 0 ? most.binds : proxy.binds)),
        " of one ", most.sessions == 0 ? "replica" : "proxy"));
  }
  RandomNumbers random(setting_.seed);
  std::vector<int64_t> held =
      FillReplicas(most.sessions, replicas, setting_.placement, random);
  SweepRow row;
  row.replicas = replicas;
  row.direct.sessions = Sum(held);
  row.direct.binds = most.binds;
  row.fullest_to_mean =
      static_cast<double>(*std::max_element(held.begin(), held.end())) /
      (static_cast<double>(row.direct.sessions) /
       static_cast<double>(replicas));
  Simulate(held, /*proxied=*/false, row.direct);
  row.proxied.sessions = std::min(row.direct.sessions, proxy.sessions);
  row.proxied.binds =
      proxy.sessions < row.direct.sessions ? proxy.binds : most.binds;
  if (proxy.sessions < row.direct.sessions) {
    RandomNumbers again(setting_.seed);
    held = PlaceSessions(row.proxied.sessions, replicas, setting_.placement,
                         again);
  }
  Simulate(held, /*proxied=*/true, row.proxied);
  return row;
}

void ReplicaSweep::Simulate(const std::vector<int64_t>& held, bool proxied,
                            SweptPath& path) const {
  path.calls_per_second =
      static_cast<double>(path.sessions) * model_.session().calls_per_second;
  RandomNumbers random(setting_.seed);
  ClusterTraffic cluster(held, classes_, machine_.service_variation, random);
  std::vector<QueueStation> stations = ClusterTraffic::Stations(
      held.size(), model_.setting().cores, setting_.proxy_cores);
  const size_t proxy = ClusterTraffic::kStations * held.size();
  const double link = model_.setting().network_bits_per_second / kBitsPerByte;
  const double proxy_link = setting_.proxy_bits_per_second / kBitsPerByte;
  QueueTraffic traffic;
  traffic.rate = path.calls_per_second;
  traffic.calls =
      std::max(setting_.fewest_calls,
               kCallsPerReplica * static_cast<int64_t>(held.size()));
  traffic.route = [&](std::vector<QueueVisit>& visits) {
    if (proxied) visits.resize(2);
    const CallDemand& cost = cluster.Add(link, visits);
    if (!proxied) return;
    visits[0] = {proxy, ProxySeconds(machine_, cost)};
    visits[1] = {proxy + 1, (cost.bytes_in + cost.bytes_out) / proxy_link};
  };
  const std::vector<double> seconds =
      cluster.StepSeconds(RunQueues(traffic, stations, random));
  path.p50_seconds = QuantileSeconds(seconds, kMedian);
  path.p99_seconds = QuantileSeconds(seconds, kStepTail);
}

}  // namespace attn
