#include "client/capacity/replica_model.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/capacity/waiting_time.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// As server/README.md says: beside the budgets 15 %.
constexpr double kBesideBudgets = 1.15;
// Of the standard normal distribution, at kStepTail.
constexpr double kNormalTail = 2.3263478740408408;

WaitingTime WaitOf(const SessionLoad& load, int cores, double sessions) {
  return {.servers = cores,
          .arrivals = sessions * load.calls_per_second,
          .service_seconds = load.mean.service_seconds,
          .variation = load.variation};
}

struct Bound {
  const char* name;
  double ReplicaSetting::*value;
  double least;
  double most;
  // As the flag has it: how much of ours one is.
  double scale;
  const char* unit;
};

constexpr Bound kBounds[] = {
    {"memory-per-replica", &ReplicaSetting::memory_bytes, 1 << 20, 1e15,
     1 << 30, " GiB"},
    {"network-gbps", &ReplicaSetting::network_bits_per_second, 1e6, 1e15, 1e9,
     " Gb/s"},
    {"memory-bandwidth", &ReplicaSetting::bus_bytes_per_second, 0, 1e15, 1e9,
     " GB/s"},
    {"p99", &ReplicaSetting::p99_seconds, 1e-6, 86400, 1, " s"},
    {"max-utilisation", &ReplicaSetting::most_utilisation, 0.01, 0.99, 1, ""},
    {"round-trip", &ReplicaSetting::round_trip_seconds, 0, 60, 1, " s"},
    {"call-memory", &ReplicaSetting::call_bytes, 0, 1e15, 1 << 20, " MiB"},
};

}  // namespace

absl::Status CheckReplica(const ReplicaSetting& setting, const char* prefix) {
  constexpr int kMostCores = 4096;
  if (setting.cores < 1 || setting.cores > kMostCores) {
    return FieldError(absl::StrCat(prefix, "cores-per-replica"),
                      absl::StrCat(setting.cores), "1 to 4096");
  }
  for (const Bound& bound : kBounds) {
    const double value = setting.*bound.value;
    if (!(value >= bound.least && value <= bound.most)) {
      return FieldError(absl::StrCat(prefix, bound.name),
                        absl::StrCat(value / bound.scale, bound.unit),
                        absl::StrCat(bound.least / bound.scale, " to ",
                                     bound.most / bound.scale, bound.unit));
    }
  }
  return absl::OkStatus();
}

ReplicaModel::ReplicaModel(const MachineProfile& machine,
                           const SessionWorkload& workload,
                           const ReplicaSetting& setting)
    : workload_(workload),
      setting_(setting),
      base_bytes_(machine.base_bytes),
      site_{setting.cores, setting.bus_bytes_per_second > 0
                               ? setting.bus_bytes_per_second
                               : machine.bus_bytes_per_second},
      load_(LoadOfSession(machine, workload, site_)) {}

double ReplicaModel::MemoryBytes(double sessions) const {
  return base_bytes_ +
         kBesideBudgets * (sessions * load_.memory_bytes + setting_.call_bytes);
}

double ReplicaModel::StepSeconds(double sessions, double quantile) const {
  const double spread = kNormalTail * std::sqrt(load_.step_variation);
  return load_.step.service_seconds * (1 + spread) +
         WaitOf(load_, setting_.cores, sessions).quantile_seconds(quantile);
}

double ReplicaModel::MeanStepSeconds(double sessions) const {
  return load_.step.service_seconds +
         WaitOf(load_, setting_.cores, sessions).mean_seconds();
}

std::vector<ReplicaFigure> ReplicaModel::Figures(double sessions) const {
  const double calls = sessions * load_.calls_per_second;
  const double share = setting_.most_utilisation;
  const double bits = setting_.network_bits_per_second;
  const double token_seconds =
      workload_.calls_per_token() *
      (MeanStepSeconds(sessions) + setting_.round_trip_seconds);
  return {
      {CapacityLimit::kCores, calls * load_.mean.service_seconds,
       static_cast<double>(setting_.cores), share},
      {CapacityLimit::kMemoryBus, calls * load_.mean.bus_bytes,
       site_.bus_bytes_per_second, share},
      {CapacityLimit::kMemory, MemoryBytes(sessions), setting_.memory_bytes},
      {CapacityLimit::kNetworkIn, calls * load_.mean.bytes_in * kBitsPerByte,
       bits, share},
      {CapacityLimit::kNetworkOut, calls * load_.mean.bytes_out * kBitsPerByte,
       bits, share},
      {CapacityLimit::kStepLatency, StepSeconds(sessions, kStepTail),
       setting_.p99_seconds},
      {CapacityLimit::kTokenTime, token_seconds, 1 / workload_.rate},
      {CapacityLimit::kSessionCount, sessions,
       static_cast<double>(setting_.most_sessions)},
  };
}

bool ReplicaModel::Fits(CapacityLimit limit, double sessions) const {
  return Figures(sessions)[static_cast<size_t>(limit)].fits();
}

ReplicaModel::Most ReplicaModel::MostSessions() const {
  Most most{setting_.most_sessions, CapacityLimit::kSessionCount};
  for (const ReplicaFigure& figure : Figures(0)) {
    // Every need grows with the sessions: the most that fit, between a number
    // that does and one that does not.
    int64_t held = 0;
    int64_t failed = most.sessions + 1;
    while (failed - held > 1) {
      const int64_t middle = held + (failed - held) / 2;
      (Fits(figure.limit, static_cast<double>(middle)) ? held : failed) =
          middle;
    }
    if (held < most.sessions) most = {held, figure.limit};
  }
  if (most.binds == CapacityLimit::kCores && WaitsForMemory()) {
    most.binds = CapacityLimit::kMemoryBus;
  }
  return most;
}

bool ReplicaModel::WaitsForMemory() const {
  const double shared =
      load_.step.bus_bytes * site_.cores / site_.bus_bytes_per_second;
  return load_.bus_bound && shared > load_.step.service_seconds / 2;
}

}  // namespace attn
