// What limits a cluster as it grows: the replicas, or the proxy before them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/capacity/replica_model.h"
#include "client/capacity/session_placement.h"

namespace attn {

inline constexpr int64_t kMostSweptReplicas = 1000;

// A value.
struct SweepSetting {
  PlacementRule placement = PlacementRule::kRandom;
  // Of one layer 7 proxy that all calls pass.
  int proxy_cores = 4;
  // Each way; what goes through it comes in once and goes out once.
  double proxy_bits_per_second = 1e10;
  uint64_t seed = 1;
  // Simulated, or 300 for each replica if those are more: enough for a p99, in
  // well under a second.
  int64_t fewest_calls = 60'000;
};

// INVALID_ARGUMENT names what is out of range, as "--proxy-cores" if `prefix`
// is "--".
absl::Status CheckSweep(const SweepSetting& setting, const char* prefix = "");

// A way from the clients to the replicas, filled with as many sessions as it
// holds. A value.
struct SweptPath {
  int64_t sessions = 0;
  double calls_per_second = 0;
  CapacityLimit binds = CapacityLimit::kCores;
  // Of steps of one token, in an event simulation of that load.
  double p50_seconds = 0;
  double p99_seconds = 0;
};

// A value.
struct SweepRow {
  int64_t replicas = 0;
  // Sessions of the fullest replica over the mean, of the direct path.
  double fullest_to_mean = 1;
  // Clients dial the replica that has their session.
  SweptPath direct;
  // All calls pass one proxy.
  SweptPath proxied;
};

// Fills `replicas` replicas of the model's kind, both ways, and simulates it:
// tens of thousands of calls, Poisson arrivals, each through the proxy, the
// network of its session's replica and a queue for its cores. The same for the
// same seed. `replicas` is 1 to kMostSweptReplicas; FAILED_PRECONDITION if a
// replica, or the proxy, does not hold even one session.
class ReplicaSweep {
 public:
  ReplicaSweep(const MachineProfile& machine, const SessionWorkload& workload,
               const ReplicaSetting& replica, const SweepSetting& setting);

  absl::StatusOr<SweepRow> Row(int64_t replicas) const;

  // Sessions whose calls the proxy passes on, and which of its limits binds.
  ReplicaModel::Most ProxyMost() const;

 private:
  void Simulate(const std::vector<int64_t>& held, bool proxied,
                SweptPath& path) const;

  MachineProfile machine_;
  SweepSetting setting_;
  ReplicaModel model_;
  std::vector<DemandClass> classes_;
};

}  // namespace attn
