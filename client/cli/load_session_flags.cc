#include "client/cli/load_session_flags.h"

#include <algorithm>

#include "CLI/CLI.hpp"
#include "client/cli/choices.h"
#include "engine/core/field_error.h"

namespace attn {

void AddLoadSessionFlags(CLI::App& command, LoadSessionFlags& flags,
                         const std::string& group) {
  SessionProfile& profile = flags.profile;
  command
      .add_option("--sessions", profile.sessions,
                  "Steps of so many sessions, each with Sk tokens before its "
                  "first step and Sq more in each")
      ->check(CLI::Range(1, kMostLoadSessions))
      ->group(group);
  command.add_option("--layers", profile.layers, "In each step")
      ->check(CLI::Range(1, kMostSessionLayers))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--kv-dtype", flags.kv_dtype, "How the server keeps k and v")
      ->transform(OneOf({"f32", "bf16", "f16", "int8"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--chunk", profile.chunk,
                  "Of the Sk tokens, so many in one step at most")
      ->check(CLI::Range(int64_t{1}, kMostSessionTokens))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--shared", profile.shared,
                  "Of the Sk tokens, so many are those of one session that the "
                  "others are forks of")
      ->check(CLI::Range(int64_t{0}, kMostSessionTokens))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--session-steps", profile.steps,
                  "Close a session after so many steps and open another; 0: "
                  "none before the end")
      ->check(CLI::Range(int64_t{0}, kMostSessionTokens))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--stream", profile.stream,
                "A stream of steps for each session, not a call for each step")
      ->group(group);
}

void AddMostSpreadFlag(CLI::App& command, LoadSessionFlags& flags,
                       const std::string& group) {
  command
      .add_option("--most-spread", flags.most_spread,
                  "Of the steps of no session may p99 be more than so many "
                  "times the median")
      ->check(CLI::Range(1.0, 1e9))
      ->group(group);
}

std::vector<std::string> LoadSessionFlagNames() {
  return {"--sessions", "--layers",        "--kv-dtype", "--chunk",
          "--shared",   "--session-steps", "--stream"};
}

absl::Status ReadLoadSessionFlags(const LoadSessionFlags& flags,
                                  const std::set<std::string>& given,
                                  CallProfile& call) {
  if (!given.contains("--sessions")) {
    for (const std::string& flag : LoadSessionFlagNames()) {
      if (!given.contains(flag)) continue;
      return FieldError(flag, "a value without --sessions",
                        "none: it is of sessions");
    }
    return absl::OkStatus();
  }
  const auto kv_dtype = ParseKvDType(flags.kv_dtype, "--kv-dtype");
  if (!kv_dtype.ok()) return kv_dtype.status();
  call.kind = CallKind::kSession;
  call.sessions = flags.profile;
  call.sessions.kv_dtype = *kv_dtype;
  return CheckSessionProfile(call.sessions, call.shape, call.dtype, "--");
}

absl::Status CheckSessionUses(const std::set<std::string>& given,
                              const std::vector<CallClass>& classes) {
  const bool has_sessions = std::any_of(
      classes.begin(), classes.end(),
      [](const CallClass& one) { return one.call.kind == CallKind::kSession; });
  if (!has_sessions && given.contains("--most-spread")) {
    return FieldError("--most-spread", "a value for calls without sessions",
                      "none: it is of the steps of each");
  }
  if (has_sessions && given.contains("--histogram-out")) {
    return FieldError("--histogram-out", "a file for calls of sessions",
                      "none: a record keeps nothing of sessions; --json does");
  }
  return absl::OkStatus();
}

}  // namespace attn
