// The flags of `attn capacity`, and what they mean together.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/capacity/replica_model.h"
#include "client/capacity/replica_sweep.h"
#include "client/capacity/workload.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line. Thread-compatible.
struct CapacityFlags {
  std::vector<int64_t> sessions;
  std::vector<int64_t> tokens = {4096};
  double total_rate = 0;
  // But for tokens, types and v_dim, which follows k_dim.
  SessionWorkload workload;
  int64_t v_dim = 0;
  std::string kv_dtype = "bf16";
  std::string dtype = "bf16";
  int cores = 0;
  double memory_gib = 32;
  double network_gbps = 10;
  double memory_gigabytes_per_second = 0;
  double call_memory_mib = 512;
  double most_utilisation = 0.7;
  std::string p99 = "50ms";
  std::string round_trip = "200us";
  int64_t replicas = 0;
  std::vector<int64_t> sweep_replicas;
  std::string placement = "random";
  int proxy_cores = 4;
  double proxy_gbps = 10;
  uint64_t seed = 1;
  std::string machine;
  // Names of those that were given: "--sessions".
  std::set<std::string> given;
};

void AddCapacityFlags(CLI::App& command, CapacityFlags& flags);

// Call when the command line has been parsed.
void NoteGivenFlags(const CLI::App& command, CapacityFlags& flags);

// A number of sessions of a workload; 0 sessions: as many as there is room for.
struct CapacityQuestion {
  int64_t sessions = 0;
  SessionWorkload workload;
};

// What is asked. A value.
struct CapacityJob {
  MachineProfile machine;
  ReplicaSetting replica;
  // One for each number of sessions and each of tokens.
  std::vector<CapacityQuestion> questions;
  // 0: as many as are needed.
  int64_t replicas = 0;
  std::vector<int64_t> sweep_replicas;
  SweepSetting sweep;
};

// INVALID_ARGUMENT names the flag that is wrong, or that makes no sense beside
// another. Reads the --machine file.
absl::StatusOr<CapacityJob> ReadCapacityFlags(const CapacityFlags& flags);

}  // namespace attn
