#include "client/cli/session_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/choices.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/session_open.h"
#include "client/cli/session_report.h"
#include "client/cli/session_step.h"
#include "client/cli/waiting_line.h"
#include "client/library/session_client.h"

namespace attn {
namespace {

constexpr char kSessionFooter[] = R"(
A session is one sequence whose keys and values the server keeps: a step sends
its new tokens alone. --session may come from the environment:

  export ATTN_SESSION=$(attn session open --q-heads 4 --q-dim 16 --quiet)

Examples:
  attn session open --q-heads 4 --q-dim 16
  attn session step --random 8
  attn session get
  attn session list)";

constexpr char kOpenFooter[] = R"(
The flags of the spec are those of attn attend.

Examples:
  attn session open --q-heads 4 --q-dim 16
  attn session open --q-heads 32 --kv-heads 8 --q-dim 128 --layers 2 \
      --kv-dtype bf16 --causal=bottom_right --max-tokens 4096 --quiet)";

constexpr char kStepFooter[] = R"(
Tensors are [1, heads, tokens, dim]. With several --layers, those of layer N are
called q.N, k.N and v.N in --input, and its output is output.N. A step that was
made is made again by its --epoch, --step and --position: it is answered as
before, and appends nothing.

Examples:
  attn session step --random 1 --seed 7
  attn session step --random 4 --out out.npy --json)";

constexpr char kForkFooter[] = R"(
The fork shares the memory of what both have.

Examples:
  attn session fork
  attn session fork --position 0 --quiet)";

constexpr char kRollbackFooter[] = R"(
Examples:
  attn session rollback --position 0)";

constexpr char kCloseFooter[] = R"(
To close a session that is not there is no error.

Examples:
  attn session close)";

constexpr char kListSessionsFooter[] = R"(
Examples:
  attn session list
  attn session list --json)";

constexpr char kGetSessionFooter[] = R"(
Examples:
  attn session get
  attn session get --json)";

struct SessionFlags {
  std::string session;
  OpenFlags open;
  StepFlags step;
  std::optional<uint64_t> epoch;
  std::optional<int64_t> position;
  bool quiet = false;
};

void PrintLine(const std::string& text) { std::puts(text.c_str()); }

// What an open or a fork made.
template <typename Response>
ExitCode PrintMade(const Response& made, const SessionFlags& flags,
                   const GlobalOptions& options) {
  if (options.json) {
    PrintLine(ToJson(made).dump(2));
  } else if (flags.quiet) {
    PrintLine(made.session_id());
  } else {
    std::fputs(DescribeSession(made.session()).c_str(), stdout);
    if (!made.owner().empty()) PrintLine("steps go to " + made.owner());
  }
  return ExitCode::kOk;
}

ExitCode RunOpen(const SessionFlags& flags, const GlobalOptions& options) {
  const auto request = ReadOpenRequest(flags.open);
  if (!request.ok()) return ReportUsageError(request.status());
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  const auto opened = client->Open(*request);
  if (!opened.ok()) return ReportCallError(opened.status());
  return PrintMade(*opened, flags, options);
}

// Everything after the call.
ExitCode PresentStep(const StepMessage& message, const StepResult& result,
                     const std::string& out, const GlobalOptions& options) {
  auto outputs = OutputsOf(message, result);
  if (!outputs.ok()) return ReportCallError(outputs.status());
  const std::string text =
      options.json
          ? StepToJson(message.session_id, result.header, *outputs).dump(2) +
                "\n"
          : DescribeStep(message.session_id, result.header, *outputs);
  if (!out.empty()) {
    TensorMap tensors;
    for (LayerOutput& part : *outputs) {
      tensors.emplace(StepTensorName("output", part.layer, outputs->size() > 1),
                      std::move(part.output));
    }
    absl::Status written = WriteTensors(out, tensors);
    if (!written.ok()) return ReportUsageError(written);
  }
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

ExitCode RunSessionStep(const SessionFlags& all, const GlobalOptions& options) {
  const StepFlags& flags = all.step;
  absl::Status writable =
      CheckOutputFile(flags.out, static_cast<int64_t>(flags.layers.size()));
  if (!writable.ok()) return ReportUsageError(writable);
  absl::StatusOr<std::vector<TokenRows>> rows;
  if (flags.random == 0) rows = ReadTokenRows(flags);
  if (flags.random == 0 && !rows.ok()) return ReportUsageError(rows.status());
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  v1::SessionInfo session;
  if (NeedsSession(flags)) {
    auto found = client->Get(all.session);
    if (!found.ok()) return ReportCallError(found.status());
    session = *std::move(found);
  }
  const auto position = PositionOf(flags, session);
  if (!position.ok()) return ReportUsageError(position.status());
  if (flags.random > 0) rows = DrawTokenRows(flags, session, *position);
  if (!rows.ok()) return ReportUsageError(rows.status());
  const StepMessage message =
      MakeStep(flags, all.session, session, *position, *rows);
  const auto result = [&] {
    const WaitingLine waiting("attn session step");
    return client->Step(message);
  }();
  if (!result.ok()) return ReportCallError(result.status());
  return PresentStep(message, *result, flags.out, options);
}

// The epoch that was given, or else the session's.
absl::StatusOr<uint64_t> EpochOf(const SessionFlags& flags,
                                 const SessionClient& client) {
  if (flags.epoch.has_value()) return *flags.epoch;
  const auto session = client.Get(flags.session);
  if (!session.ok()) return session.status();
  return session->epoch();
}

ExitCode RunFork(const SessionFlags& flags, const GlobalOptions& options) {
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  const auto epoch = EpochOf(flags, *client);
  if (!epoch.ok()) return ReportCallError(epoch.status());
  const auto fork = client->Fork(flags.session, *epoch, flags.position);
  if (!fork.ok()) return ReportCallError(fork.status());
  return PrintMade(*fork, flags, options);
}

ExitCode RunRollback(const SessionFlags& flags, const GlobalOptions& options) {
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  const auto epoch = EpochOf(flags, *client);
  if (!epoch.ok()) return ReportCallError(epoch.status());
  const std::string& id = flags.session;
  const auto back = client->Rollback(id, *epoch, flags.position.value_or(0));
  if (!back.ok()) return ReportCallError(back.status());
  if (options.json) {
    nlohmann::json document = ToJson(*back);
    document["session_id"] = id;
    PrintLine(document.dump(2));
  } else {
    PrintLine(absl::StrCat(id, ": epoch ", back->epoch(), ", next step ",
                           back->step()));
  }
  return ExitCode::kOk;
}

ExitCode RunClose(const SessionFlags& flags, const GlobalOptions& options) {
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  const std::string& id = flags.session;
  const auto closed = client->Close(id);
  if (!closed.ok()) return ReportCallError(closed.status());
  if (options.json) {
    const nlohmann::json document = {{"session_id", id}, {"closed", *closed}};
    PrintLine(document.dump(2));
  } else {
    PrintLine(id + (*closed ? ": closed" : ": was not there"));
  }
  return ExitCode::kOk;
}

ExitCode RunGetSession(const SessionFlags& flags,
                       const GlobalOptions& options) {
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  const auto session = client->Get(flags.session);
  if (!session.ok()) return ReportCallError(session.status());
  std::fputs(options.json ? (ToJson(*session).dump(2) + "\n").c_str()
                          : DescribeSession(*session).c_str(),
             stdout);
  return ExitCode::kOk;
}

ExitCode RunListSessions(const SessionFlags& /*flags*/,
                         const GlobalOptions& options) {
  const auto client = SessionClient::Connect(options.client());
  if (!client.ok()) return ReportUsageError(client.status());
  const auto sessions = client->List();
  if (!sessions.ok()) return ReportCallError(sessions.status());
  if (!options.json) {
    std::fputs(DescribeSessions(*sessions).c_str(), stdout);
    return ExitCode::kOk;
  }
  nlohmann::json document = nlohmann::json::array();
  for (const v1::SessionInfo& session : *sessions) {
    document.push_back(ToJson(session));
  }
  PrintLine(document.dump(2));
  return ExitCode::kOk;
}

// A command and what was given to it. Its flags are its own: CLI11 gives the
// environment's values to all commands, also to those that were not named.
struct SessionPart {
  CLI::App* command;
  SessionFlags& flags;
};

// A command below `session` that ends in `run(flags, options)`.
template <typename Run>
SessionPart AddPart(CLI::App& session, GlobalOptions& options, const char* name,
                    const char* summary, const char* footer, Run run) {
  auto flags = std::make_shared<SessionFlags>();
  CLI::App* part = session.add_subcommand(name, summary);
  part->footer(footer);
  part->fallthrough();
  part->callback([flags, &options, run] {
    options.run = [flags, &options, run] { return run(*flags, options); };
  });
  return {part, *flags};
}

void AddSession(const SessionPart& part) {
  part.command->add_option("--session", part.flags.session, "The session's id")
      ->envname("ATTN_SESSION")
      ->type_name("ID")
      ->required();
}

void AddEpoch(const SessionPart& part) {
  part.command->add_option(
      "--epoch", part.flags.epoch,
      "The session's epoch; by default the server is asked");
}

void AddQuiet(const SessionPart& part) {
  part.command->add_flag("--quiet", part.flags.quiet, "Print the id alone");
}

CLI::Option* AddPosition(const SessionPart& part, const char* help) {
  return part.command->add_option("--position", part.flags.position, help);
}

}  // namespace

void AddSessionCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "session", "Keep keys and values on the server, step by step");
  command->footer(kSessionFooter);
  command->fallthrough();
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* summary,
                       const char* footer, auto run) {
    return AddPart(*command, options, name, summary, footer, run);
  };
  const SessionPart open =
      add("open", "Make an empty session", kOpenFooter, RunOpen);
  AddOpenFlags(*open.command, open.flags.open);
  AddQuiet(open);
  const SessionPart step = add("step", "Append new tokens and attend with them",
                               kStepFooter, RunSessionStep);
  AddSession(step);
  AddStepFlags(*step.command, step.flags.step);
  const SessionPart fork =
      add("fork", "Make a session that has what this one has", kForkFooter,
          RunFork);
  AddSession(fork);
  AddPosition(fork, "Tokens that the fork has; default all");
  AddEpoch(fork);
  AddQuiet(fork);
  const SessionPart rollback =
      add("rollback", "Forget the tokens from a position on", kRollbackFooter,
          RunRollback);
  AddSession(rollback);
  AddPosition(rollback, "Tokens that stay")->required();
  AddEpoch(rollback);
  AddSession(add("close", "Forget a session", kCloseFooter, RunClose));
  add("list", "List your sessions on the server", kListSessionsFooter,
      RunListSessions);
  AddSession(
      add("get", "Describe a session", kGetSessionFooter, RunGetSession));
}

}  // namespace attn
