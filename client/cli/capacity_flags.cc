#include "client/cli/capacity_flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/capacity/capacity_plan.h"
#include "client/cli/choices.h"
#include "client/io/file.h"
#include "client/load/session_profile.h"
#include "client/load/time_text.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kSessionGroup[] = "Sessions";
constexpr char kReplicaGroup[] = "Replicas";
constexpr char kSweepGroup[] = "Sweep";
constexpr double kGiga = 1e9;
constexpr double kGib = 1 << 30;
constexpr double kMib = 1 << 20;
// Of a table, and of a sweep: more is no question, and takes no end of memory.
constexpr size_t kMostRows = 10000;
constexpr size_t kMostSweeps = 100;

void AddSessionFlags(CLI::App& command, CapacityFlags& flags) {
  SessionWorkload& workload = flags.workload;
  const auto add = [&command](const std::string& name, auto& value,
                              const std::string& help) {
    return command.add_option(name, value, help)->group(kSessionGroup);
  };
  add("--sessions", flags.sessions, "Open at a time; several for a table")
      ->delimiter(',');
  add("--tokens", flags.tokens,
      "That each session has and each of its steps sees; several for a table")
      ->delimiter(',')
      ->capture_default_str();
  CLI::Option* rate =
      add("--rate", workload.rate, "Tokens a second of each session");
  rate->capture_default_str();
  add("--total-rate", flags.total_rate,
      "Tokens a second of all sessions together")
      ->excludes(rate);
  add("--prompt", workload.prompt,
      "Tokens that a session begins with; it ends when it has --tokens. 0: "
      "none "
      "ever ends")
      ->capture_default_str();
  add("--layers", workload.layers, "Of the model")->capture_default_str();
  add("--q-heads", workload.q_heads, "Query heads")->capture_default_str();
  add("--kv-heads", workload.kv_heads, "Heads of k and v")
      ->capture_default_str();
  add("--dim", workload.k_dim, "Elements of a row of q, k and v")
      ->capture_default_str();
  add("--v-dim", flags.v_dim, "Of v, if other than --dim");
  add("--kv-dtype", flags.kv_dtype, "How the server keeps k and v")
      ->transform(OneOf({"f32", "bf16", "f16", "int8"}))
      ->capture_default_str();
  add("--dtype", flags.dtype, "How q, k, v and the output travel")
      ->transform(OneOf({"f32", "bf16", "f16"}))
      ->capture_default_str();
  add("--layers-per-call", workload.layers_per_call,
      "1 for a decoder: a layer's q comes from the layer before")
      ->capture_default_str();
}

void AddReplicaFlags(CLI::App& command, CapacityFlags& flags) {
  const auto add = [&command](const std::string& name, auto& value,
                              const std::string& help) {
    return command.add_option(name, value, help)->group(kReplicaGroup);
  };
  add("--replicas", flags.replicas,
      "What-if: so many, instead of as many as are needed");
  add("--cores-per-replica", flags.cores,
      "Those of the --machine unless given");
  add("--memory-per-replica", flags.memory_gib, "GiB")->capture_default_str();
  add("--network-gbps", flags.network_gbps, "Of a replica, each way")
      ->capture_default_str();
  add("--memory-bandwidth", flags.memory_gigabytes_per_second,
      "GB/s that the cores of a replica read together; those of the --machine "
      "unless given");
  add("--call-memory", flags.call_memory_mib,
      "MiB of --max-inflight-bytes, --max-transport-bytes and "
      "--max-layer-bytes "
      "of a replica together")
      ->capture_default_str();
  add("--p99", flags.p99, "Goal: time in the server of a step")
      ->capture_default_str();
  add("--max-utilisation", flags.most_utilisation,
      "Share of cores, memory bus and network that may be in use")
      ->capture_default_str();
  add("--round-trip", flags.round_trip, "From a client to a server and back")
      ->capture_default_str();
  add("--machine", flags.machine,
      "Profile of the replicas' machine, by tests/bench/capacity.sh")
      ->type_name(kFileType);
}

void AddSweepFlags(CLI::App& command, CapacityFlags& flags) {
  const auto add = [&command](const std::string& name, auto& value,
                              const std::string& help) {
    return command.add_option(name, value, help)->group(kSweepGroup);
  };
  add("--sweep-replicas", flags.sweep_replicas,
      "Fill so many replicas, directly and through a proxy, and simulate it")
      ->delimiter(',');
  add("--placement", flags.placement, "Where sessions are opened")
      ->transform(OneOf({"even", "random", "two-choices"}))
      ->capture_default_str();
  add("--proxy-cores", flags.proxy_cores, "Of the one proxy")
      ->capture_default_str();
  add("--proxy-gbps", flags.proxy_gbps, "Of the one proxy, each way")
      ->capture_default_str();
  add("--seed", flags.seed, "Of the simulation")->capture_default_str();
}

absl::Status CheckUses(const CapacityFlags& flags) {
  const bool sweeps = flags.given.contains("--sweep-replicas");
  for (const char* flag :
       {"--placement", "--proxy-cores", "--proxy-gbps", "--seed"}) {
    if (!sweeps && flags.given.contains(flag)) {
      return FieldError(flag, "a value without --sweep-replicas",
                        "none: it is of a sweep");
    }
  }
  for (const char* flag : {"--sessions", "--replicas", "--total-rate"}) {
    if (sweeps && flags.given.contains(flag)) {
      return FieldError(flag, "a value beside --sweep-replicas",
                        "none: a sweep fills its replicas");
    }
  }
  if (sweeps && flags.tokens.size() != 1) {
    return FieldError("--tokens", absl::StrCat(flags.tokens.size(), " values"),
                      "one: it is of a sweep");
  }
  if (!sweeps && flags.sessions.empty() &&
      !flags.given.contains("--replicas")) {
    return FieldError("--sessions", "nothing",
                      "a number, or --replicas for how many fit");
  }
  if (flags.sessions.empty() && flags.given.contains("--total-rate")) {
    return FieldError("--total-rate", "a value without --sessions",
                      "--rate, of each session");
  }
  return absl::OkStatus();
}

absl::StatusOr<MachineProfile> ReadMachine(const CapacityFlags& flags) {
  if (flags.machine.empty()) return DefaultMachine();
  constexpr int64_t kMostProfileBytes = 1 << 20;
  const auto text = ReadFile(flags.machine, kMostProfileBytes);
  if (!text.ok()) return text.status();
  return ParseMachineProfile(*text, flags.machine);
}

absl::Status ReadReplica(const CapacityFlags& flags, CapacityJob& job) {
  const auto p99 = ParseLength(flags.p99, "--p99", absl::Microseconds(1));
  if (!p99.ok()) return p99.status();
  const auto round_trip =
      ParseLength(flags.round_trip, "--round-trip", absl::ZeroDuration());
  if (!round_trip.ok()) return round_trip.status();
  ReplicaSetting& replica = job.replica;
  replica.cores = flags.given.contains("--cores-per-replica")
                      ? flags.cores
                      : job.machine.cores;
  replica.memory_bytes = flags.memory_gib * kGib;
  replica.network_bits_per_second = flags.network_gbps * kGiga;
  if (flags.given.contains("--memory-bandwidth") &&
      flags.memory_gigabytes_per_second == 0) {
    return FieldError("--memory-bandwidth", "0", "above 0 GB/s");
  }
  replica.bus_bytes_per_second = flags.memory_gigabytes_per_second * kGiga;
  replica.p99_seconds = absl::ToDoubleSeconds(*p99);
  replica.most_utilisation = flags.most_utilisation;
  replica.round_trip_seconds = absl::ToDoubleSeconds(*round_trip);
  replica.call_bytes = flags.call_memory_mib * kMib;
  return CheckReplica(replica, "--");
}

absl::StatusOr<SessionWorkload> ReadWorkload(const CapacityFlags& flags) {
  SessionWorkload workload = flags.workload;
  workload.v_dim =
      flags.given.contains("--v-dim") ? flags.v_dim : workload.k_dim;
  const auto kv_dtype = ParseKvDType(flags.kv_dtype, "--kv-dtype");
  if (!kv_dtype.ok()) return kv_dtype.status();
  workload.kv_dtype = *kv_dtype;
  const auto dtype = ParseKvDType(flags.dtype, "--dtype");
  if (!dtype.ok()) return dtype.status();
  workload.dtype = *dtype;
  return workload;
}

absl::Status AddQuestions(const CapacityFlags& flags, CapacityJob& job) {
  const auto workload = ReadWorkload(flags);
  if (!workload.ok()) return workload.status();
  std::vector<int64_t> sessions = flags.sessions;
  if (sessions.empty()) sessions = {0};
  if (sessions.size() > kMostRows / std::max<size_t>(flags.tokens.size(), 1)) {
    return FieldError(
        sessions.size() > flags.tokens.size() ? "--sessions" : "--tokens",
        absl::StrCat(sessions.size(), " by ", flags.tokens.size(), " values"),
        absl::StrCat("a table of at most ", kMostRows, " rows"));
  }
  const bool divided = flags.given.contains("--total-rate");
  if (divided && !(flags.total_rate > 0 && std::isfinite(flags.total_rate))) {
    return FieldError("--total-rate", absl::StrCat(flags.total_rate),
                      "above 0 tokens/s, and finite");
  }
  for (const int64_t count : sessions) {
    if (!flags.sessions.empty() &&
        (count < 1 || count > kMostPlannedSessions)) {
      return FieldError("--sessions", absl::StrCat(count),
                        absl::StrCat("1 to ", kMostPlannedSessions));
    }
    for (const int64_t tokens : flags.tokens) {
      CapacityQuestion question{count, *workload};
      question.workload.tokens = tokens;
      if (divided) {
        question.workload.rate = flags.total_rate / static_cast<double>(count);
      }
      absl::Status status = CheckWorkload(question.workload, "--");
      if (!status.ok()) return status;
      job.questions.push_back(question);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSweep(const CapacityFlags& flags, CapacityJob& job) {
  if (!flags.given.contains("--sweep-replicas")) return absl::OkStatus();
  if (flags.sweep_replicas.size() > kMostSweeps) {
    return FieldError("--sweep-replicas",
                      absl::StrCat(flags.sweep_replicas.size(), " values"),
                      absl::StrCat("at most ", kMostSweeps));
  }
  job.sweep_replicas = flags.sweep_replicas;
  for (const int64_t replicas : job.sweep_replicas) {
    if (replicas < 1 || replicas > kMostSweptReplicas) {
      return FieldError("--sweep-replicas", absl::StrCat(replicas),
                        absl::StrCat("1 to ", kMostSweptReplicas));
    }
  }
  for (const PlacementRule rule : {PlacementRule::kEven, PlacementRule::kRandom,
                                   PlacementRule::kTwoChoices}) {
    if (flags.placement == std::string(NameOf(rule))) {
      job.sweep.placement = rule;
    }
  }
  job.sweep.proxy_cores = flags.proxy_cores;
  job.sweep.proxy_bits_per_second = flags.proxy_gbps * kGiga;
  job.sweep.seed = flags.seed;
  return CheckSweep(job.sweep, "--");
}

}  // namespace

void AddCapacityFlags(CLI::App& command, CapacityFlags& flags) {
  AddSessionFlags(command, flags);
  AddReplicaFlags(command, flags);
  AddSweepFlags(command, flags);
}

void NoteGivenFlags(const CLI::App& command, CapacityFlags& flags) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) flags.given.insert(NameOf(*option));
  }
}

absl::StatusOr<CapacityJob> ReadCapacityFlags(const CapacityFlags& flags) {
  absl::Status status = CheckUses(flags);
  if (!status.ok()) return status;
  CapacityJob job;
  auto machine = ReadMachine(flags);
  if (!machine.ok()) return machine.status();
  job.machine = *std::move(machine);
  status = ReadReplica(flags, job);
  if (status.ok()) status = AddQuestions(flags, job);
  if (status.ok()) status = ReadSweep(flags, job);
  if (!status.ok()) return status;
  if (flags.given.contains("--replicas")) {
    if (flags.replicas < 1 || flags.replicas > kMostPlannedReplicas) {
      return FieldError("--replicas", absl::StrCat(flags.replicas),
                        absl::StrCat("1 to ", kMostPlannedReplicas));
    }
    job.replicas = flags.replicas;
  }
  return job;
}

}  // namespace attn
