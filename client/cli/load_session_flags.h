// The flags of `attn load` that make its calls steps of sessions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/load/call_class.h"
#include "client/load/session_profile.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line. Thread-compatible.
struct LoadSessionFlags {
  SessionProfile profile;
  std::string kv_dtype = "f32";
  // 0: any.
  double most_spread = 0;
};

void AddLoadSessionFlags(CLI::App& command, LoadSessionFlags& flags,
                         const std::string& group);

void AddMostSpreadFlag(CLI::App& command, LoadSessionFlags& flags,
                       const std::string& group);

// Names of the former: "--sessions", which the others need.
std::vector<std::string> LoadSessionFlagNames();

// Makes `call` a step of sessions if --sessions is among `given`.
// INVALID_ARGUMENT names the flag that is wrong or needs --sessions.
absl::Status ReadLoadSessionFlags(const LoadSessionFlags& flags,
                                  const std::set<std::string>& given,
                                  CallProfile& call);

// INVALID_ARGUMENT if --most-spread is given for calls that are of no sessions,
// or --histogram-out for some that are.
absl::Status CheckSessionUses(const std::set<std::string>& given,
                              const std::vector<CallClass>& classes);

}  // namespace attn
