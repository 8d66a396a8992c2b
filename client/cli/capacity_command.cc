#include "client/cli/capacity_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/capacity_flags.h"
#include "client/cli/capacity_report.h"

namespace attn {
namespace {

constexpr char kCapacityFooter[] = R"(
Asks no server: the answer follows from a model whose constants were measured on
a machine (--machine). It takes every session to have all its tokens at every
step. What is in use stays below --max-utilisation, 99 of 100 steps are done
within --p99, and a token is through its layers before the next one is due.

--replicas tells how many sessions so many servers hold. --sweep-replicas fills
servers with sessions and simulates their steps: when clients dial the server of
their session, and when all calls pass one proxy.

Exit code 1: no replica holds even one session, or --replicas do not hold
--sessions.

Examples:
  attn capacity --sessions 1000 --tokens 4096 --rate 0.1
  attn capacity --sessions 100,1000 --tokens 1024,8192 --rate 0.05
  attn capacity --sessions 200 --total-rate 20 --kv-dtype int8 --json
  attn capacity --replicas 4 --tokens 1024 --layers 16 --p99 20ms
  attn capacity --sweep-replicas 1,10,100 --tokens 1024 --proxy-cores 2)";

void PrintCapacity(bool as_json, const nlohmann::ordered_json& json,
                   const std::string& text) {
  std::fputs(as_json ? (json.dump(2) + "\n").c_str() : text.c_str(), stdout);
}

// What fits is no fault of the command line.
ExitCode ReportShortage(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "attn: %s\n", message.c_str());
  return ExitCode::kCheckFailed;
}

ExitCode ReportCapacityError(const absl::Status& status) {
  return absl::IsFailedPrecondition(status)
             ? ReportShortage(std::string(status.message()))
             : ReportUsageError(status);
}

ExitCode RunSweep(const CapacityJob& job, const GlobalOptions& global) {
  const ReplicaSweep sweep(job.machine, job.questions.front().workload,
                           job.replica, job.sweep);
  std::vector<SweepRow> rows;
  for (const int64_t replicas : job.sweep_replicas) {
    const auto row = sweep.Row(replicas);
    if (!row.ok()) return ReportCapacityError(row.status());
    rows.push_back(*row);
  }
  PrintCapacity(global.json, SweepJson(job, rows), SweepText(job, rows));
  return ExitCode::kOk;
}

ExitCode RunPlans(const CapacityJob& job, const GlobalOptions& global) {
  std::vector<CapacityPlan> plans;
  for (const CapacityQuestion& question : job.questions) {
    const ReplicaModel model(job.machine, question.workload, job.replica);
    const auto plan = job.replicas > 0
                          ? PlanSessions(model, question.sessions, job.replicas)
                          : PlanReplicas(model, question.sessions);
    if (!plan.ok()) return ReportCapacityError(plan.status());
    plans.push_back(*plan);
  }
  PrintCapacity(global.json, CapacityJson(job, plans),
                plans.size() == 1 ? CapacityText(job, plans.front())
                                  : CapacityTable(job, plans));
  for (const CapacityPlan& plan : plans) {
    if (plan.fits()) continue;
    return ReportShortage(absl::StrCat(
        plan.replicas, " replicas do not hold ", plan.sessions, " sessions: ",
        plan.sessions_per_replica, " each, and ", plan.most.sessions, " fit"));
  }
  return ExitCode::kOk;
}

ExitCode RunCapacity(const CapacityFlags& flags, const GlobalOptions& global) {
  const auto job = ReadCapacityFlags(flags);
  if (!job.ok()) return ReportCapacityError(job.status());
  return job->sweep_replicas.empty() ? RunPlans(*job, global)
                                     : RunSweep(*job, global);
}

}  // namespace

void AddCapacityCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "capacity", "Tell how many cores and how much memory sessions need");
  command->footer(kCapacityFooter);
  auto flags = std::make_shared<CapacityFlags>();
  AddCapacityFlags(*command, *flags);
  command->callback([flags, command, &options] {
    NoteGivenFlags(*command, *flags);
    options.run = [flags, &options] { return RunCapacity(*flags, options); };
  });
}

}  // namespace attn
