// One server, and how many sessions it holds.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/capacity/capacity_limit.h"
#include "client/capacity/session_load.h"

namespace attn {

// The share of steps that the goal is for.
inline constexpr double kStepTail = 0.99;

// One server, and what is asked of it. A value.
struct ReplicaSetting {
  int cores = 2;
  double memory_bytes = 32.0 * (1 << 30);
  // Each way.
  double network_bits_per_second = 1e10;
  // Of memory, all cores together; 0: the machine's.
  double bus_bytes_per_second = 0;
  // That 99 of 100 steps must not exceed, in the server.
  double p99_seconds = 0.05;
  // Share of cores, memory bus and network that may be in use.
  double most_utilisation = 0.7;
  // Between client and server and back, added to each step of a token.
  double round_trip_seconds = 0.0002;
  // --max-inflight-bytes, --max-transport-bytes and --max-layer-bytes together.
  double call_bytes = 512.0 * (1 << 20);
  // --max-sessions.
  int64_t most_sessions = 100000;
};

// INVALID_ARGUMENT names what is out of range, as "--p99" if `prefix` is "--".
absl::Status CheckReplica(const ReplicaSetting& setting,
                          const char* prefix = "");

// One resource of a replica, or one promise that it keeps. A value.
struct ReplicaFigure {
  CapacityLimit limit = CapacityLimit::kCores;
  // In use at the number of sessions that was asked of, in the units of
  // `capacity`: cores (those that wait for memory are in use), bytes/s, bytes,
  // bits/s, seconds, sessions.
  double need = 0;
  double capacity = 0;
  // Of it that may be used: most_utilisation, or 1.
  double share = 1;

  double utilisation() const { return need / capacity; }
  bool fits() const { return need <= capacity * share; }
};

// A server of `machine`'s kind under sessions of `workload`. Thread-compatible.
class ReplicaModel {
 public:
  // All three are valid.
  ReplicaModel(const MachineProfile& machine, const SessionWorkload& workload,
               const ReplicaSetting& setting);

  const SessionLoad& session() const { return load_; }
  const ReplicaSetting& setting() const { return setting_; }
  const ComputeSite& site() const { return site_; }

  // All resources and promises, in the order of CapacityLimit, of so many
  // sessions. Latencies are infinite where a queue has no end.
  std::vector<ReplicaFigure> Figures(double sessions) const;
  // How many fit, and what binds; 0 if not even one does.
  struct Most {
    int64_t sessions = 0;
    CapacityLimit binds = CapacityLimit::kCores;
  };
  Most MostSessions() const;

  // Resident, with 15 % for the rounding of blocks, plans and scratch.
  double MemoryBytes(double sessions) const;
  // In the server.
  double StepSeconds(double sessions, double quantile) const;
  double MeanStepSeconds(double sessions) const;

 private:
  bool Fits(CapacityLimit limit, double sessions) const;
  // Occupied cores wait for memory most of the time: more of them would not
  // help.
  bool WaitsForMemory() const;

  SessionWorkload workload_;
  ReplicaSetting setting_;
  double base_bytes_;
  ComputeSite site_;
  SessionLoad load_;
};

}  // namespace attn
