#include "client/cli/capacity_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text_table.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

using CapacityDocument = nlohmann::ordered_json;

constexpr double kNanos = 1e9;
constexpr double kBillion = 1e9;
constexpr double kGibBytes = 1 << 30;
constexpr double kPercent = 100;

// How a figure is read by people.
struct FigureUnit {
  const char* name;
  const char* unit;
  double scale;
  // Replicas add up.
  bool adds;
};

FigureUnit UnitOf(CapacityLimit limit) {
  switch (limit) {
    case CapacityLimit::kCores:
      return {"cores in use", "cores", 1, true};
    case CapacityLimit::kMemoryBus:
      return {"memory bus, GB/s", "bytes_per_second", kBillion, true};
    case CapacityLimit::kMemory:
      return {"memory, GiB", "bytes", kGibBytes, true};
    case CapacityLimit::kNetworkIn:
      return {"network in, Gb/s", "bits_per_second", kBillion, true};
    case CapacityLimit::kNetworkOut:
      return {"network out, Gb/s", "bits_per_second", kBillion, true};
    case CapacityLimit::kStepLatency:
      return {"p99 of a step, ms", "seconds", 1e-3, false};
    case CapacityLimit::kTokenTime:
      return {"time of a token, ms", "seconds", 1e-3, false};
    default:
      return {"sessions", "sessions", 1, true};
  }
}

std::string Short(double value) {
  return std::isfinite(value) && std::abs(value) >= 1000
             ? absl::StrFormat("%.0f", value)
             : FormatNumber(value);
}

std::string Percent(double share) {
  return std::isfinite(share) ? absl::StrFormat("%.0f %%", kPercent * share)
                              : "inf";
}

// JSON has no infinity.
CapacityDocument NumberOrNull(double value) {
  return std::isfinite(value) ? CapacityDocument(value) : CapacityDocument();
}

std::string Kept(const SessionWorkload& w) {
  return absl::StrCat(w.tokens, " tokens, ", w.layers, " layers, ", w.q_heads,
                      "/", w.kv_heads, " heads of ", w.k_dim, ", kept as ",
                      std::string(Name(w.kv_dtype)));
}

std::string MachineLine(const CapacityJob& job) {
  return absl::StrCat("machine: ", job.machine.name, ", measured ",
                      job.machine.measured, "\n");
}

std::string ReplicaLine(const CapacityJob& job) {
  const ReplicaSetting& r = job.replica;
  return absl::StrFormat("replicas: %d cores, %s GiB, %s Gb/s\n", r.cores,
                         Short(r.memory_bytes / kGibBytes),
                         Short(r.network_bits_per_second / kBillion));
}

std::string Answer(const CapacityJob& job, const CapacityPlan& plan) {
  const auto replicas = static_cast<double>(plan.replicas);
  std::string text = absl::StrFormat(
      "%d %s with %s cores and %s GiB of memory in all\n", plan.replicas,
      plan.replicas == 1 ? "replica" : "replicas",
      Short(replicas * job.replica.cores),
      Short(replicas * job.replica.memory_bytes / kGibBytes));
  absl::StrAppendFormat(
      &text, "each holds %d sessions, and %d at most: what binds is %s\n",
      plan.sessions_per_replica, plan.most.sessions,
      std::string(NameOf(plan.most.binds)));
  absl::StrAppendFormat(&text, "each with --max-session-bytes=%d\n",
                        plan.session_bytes_per_replica);
  return text;
}

CapacityDocument WorkloadDocument(const SessionWorkload& w) {
  return {{"tokens", w.tokens},
          {"rate", w.rate},
          {"prompt", w.prompt},
          {"layers", w.layers},
          {"q_heads", w.q_heads},
          {"kv_heads", w.kv_heads},
          {"k_dim", w.k_dim},
          {"v_dim", w.v_dim},
          {"kv_dtype", std::string(Name(w.kv_dtype))},
          {"dtype", std::string(Name(w.dtype))},
          {"layers_per_call", w.layers_per_call},
          {"session_bytes", w.session_bytes()}};
}

CapacityDocument SettingDocument(const CapacityJob& job) {
  const ReplicaSetting& r = job.replica;
  return {{"machine", job.machine.name},
          {"measured", job.machine.measured},
          {"cores", r.cores},
          {"memory_bytes", r.memory_bytes},
          {"network_bits_per_second", r.network_bits_per_second},
          {"p99_seconds", r.p99_seconds},
          {"max_utilisation", r.most_utilisation},
          {"round_trip_seconds", r.round_trip_seconds},
          {"call_bytes", r.call_bytes}};
}

CapacityDocument PlanDocument(const CapacityQuestion& question,
                              const CapacityPlan& plan) {
  CapacityDocument figures = CapacityDocument::array();
  for (const ReplicaFigure& figure : plan.figures) {
    figures.push_back({{"resource", std::string(NameOf(figure.limit))},
                       {"unit", UnitOf(figure.limit).unit},
                       {"need", NumberOrNull(figure.need)},
                       {"capacity", figure.capacity},
                       {"utilisation", NumberOrNull(figure.utilisation())},
                       {"most_utilisation", figure.share},
                       {"fits", figure.fits()}});
  }
  return {{"workload", WorkloadDocument(question.workload)},
          {"sessions", plan.sessions},
          {"replicas", plan.replicas},
          {"sessions_per_replica", plan.sessions_per_replica},
          {"most_sessions_per_replica", plan.most.sessions},
          {"binds", std::string(NameOf(plan.most.binds))},
          {"fits", plan.fits()},
          {"session_bytes_per_replica", plan.session_bytes_per_replica},
          {"per_replica", std::move(figures)}};
}

CapacityDocument PathDocument(const SweptPath& path) {
  return {{"sessions", path.sessions},
          {"calls_per_second", path.calls_per_second},
          {"binds", std::string(NameOf(path.binds))},
          {"p50_seconds", path.p50_seconds},
          {"p99_seconds", path.p99_seconds}};
}

std::vector<std::string> PathCells(const SweptPath& path) {
  constexpr double kMillis = 1e3;
  return {absl::StrCat(path.sessions), Short(path.calls_per_second),
          std::string(NameOf(path.binds)),
          absl::StrFormat("%.2f", path.p50_seconds * kMillis),
          absl::StrFormat("%.2f", path.p99_seconds * kMillis)};
}

}  // namespace

std::string CapacityText(const CapacityJob& job, const CapacityPlan& plan) {
  const SessionWorkload& workload = job.questions.front().workload;
  TextTable table(
      {"resource", "in all", "a replica", "of", "in use", "may be"});
  for (const ReplicaFigure& figure : plan.figures) {
    const FigureUnit unit = UnitOf(figure.limit);
    const double need = figure.need / unit.scale;
    const double all = figure.limit == CapacityLimit::kSessionCount
                           ? static_cast<double>(plan.sessions)
                           : need * static_cast<double>(plan.replicas);
    table.AddRow({unit.name, unit.adds ? Short(all) : "-", Short(need),
                  Short(figure.capacity / unit.scale),
                  Percent(figure.utilisation()), Percent(figure.share)});
  }
  return absl::StrCat(
      plan.sessions, " sessions of ", Kept(workload), "\n",
      Short(workload.rate), " tokens/s each, ",
      Short(static_cast<double>(plan.sessions) * workload.calls_per_second()),
      " steps/s in all\n", ReplicaLine(job), MachineLine(job), "\n",
      table.ToString(), "\n", Answer(job, plan));
}

std::string CapacityTable(const CapacityJob& job,
                          const std::vector<CapacityPlan>& plans) {
  TextTable table({"sessions", "tokens", "tokens/s each", "replicas", "cores",
                   "memory, GiB", "network in, Gb/s", "p99, ms", "binds"});
  for (size_t i = 0; i < plans.size(); ++i) {
    const CapacityPlan& plan = plans[i];
    const SessionWorkload& workload = job.questions[i].workload;
    const auto replicas = static_cast<double>(plan.replicas);
    const auto of = [&](CapacityLimit limit) {
      return plan.figures[static_cast<size_t>(limit)].need /
             UnitOf(limit).scale;
    };
    table.AddRow({absl::StrCat(plan.sessions), absl::StrCat(workload.tokens),
                  Short(workload.rate), absl::StrCat(plan.replicas),
                  Short(replicas * job.replica.cores),
                  Short(replicas * of(CapacityLimit::kMemory)),
                  Short(replicas * of(CapacityLimit::kNetworkIn)),
                  absl::StrFormat("%.1f", of(CapacityLimit::kStepLatency)),
                  std::string(NameOf(plan.most.binds))});
  }
  return absl::StrCat(ReplicaLine(job), MachineLine(job), "\n",
                      table.ToString());
}

std::string SweepText(const CapacityJob& job,
                      const std::vector<SweepRow>& rows) {
  TextTable table({"replicas", "fullest", "sessions", "steps/s", "limit",
                   "p50, ms", "p99, ms", "by proxy", "steps/s", "limit",
                   "p50, ms", "p99, ms"});
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells = {
        absl::StrCat(row.replicas),
        absl::StrFormat("%.2f", row.fullest_to_mean)};
    for (const SweptPath* path : {&row.direct, &row.proxied}) {
      const std::vector<std::string> of = PathCells(*path);
      cells.insert(cells.end(), of.begin(), of.end());
    }
    table.AddRow(std::move(cells));
  }
  const SessionWorkload& workload = job.questions.front().workload;
  return absl::StrCat(
      "sessions of ", Kept(workload), ", ", Short(workload.rate),
      " tokens/s each\n", ReplicaLine(job), MachineLine(job),
      absl::StrFormat("placement: %s; fullest: its sessions over the mean\n"
                      "proxy: one of %d cores, %s Gb/s\n\n",
                      std::string(NameOf(job.sweep.placement)),
                      job.sweep.proxy_cores,
                      Short(job.sweep.proxy_bits_per_second / kBillion)),
      table.ToString());
}

nlohmann::ordered_json CapacityJson(const CapacityJob& job,
                                    const std::vector<CapacityPlan>& plans) {
  CapacityDocument json;
  json["replica"] = SettingDocument(job);
  json["plans"] = CapacityDocument::array();
  for (size_t i = 0; i < plans.size(); ++i) {
    json["plans"].push_back(PlanDocument(job.questions[i], plans[i]));
  }
  return json;
}

nlohmann::ordered_json SweepJson(const CapacityJob& job,
                                 const std::vector<SweepRow>& rows) {
  CapacityDocument json;
  json["replica"] = SettingDocument(job);
  json["workload"] = WorkloadDocument(job.questions.front().workload);
  json["placement"] = std::string(NameOf(job.sweep.placement));
  json["proxy"] = {
      {"cores", job.sweep.proxy_cores},
      {"network_bits_per_second", job.sweep.proxy_bits_per_second}};
  json["seed"] = job.sweep.seed;
  json["rows"] = CapacityDocument::array();
  for (const SweepRow& row : rows) {
    json["rows"].push_back({{"replicas", row.replicas},
                            {"fullest_to_mean", row.fullest_to_mean},
                            {"direct", PathDocument(row.direct)},
                            {"proxied", PathDocument(row.proxied)}});
  }
  return json;
}

}  // namespace attn
