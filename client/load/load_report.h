// What is told of a load run: to people and to programs.
#pragma once

#include <string>
#include <vector>

#include "client/load/answer_verifier.h"
#include "client/load/call_profile.h"
#include "client/load/load_result.h"
#include "client/load/load_run.h"
#include "nlohmann/json.hpp"

namespace attn {

// A run and how it was made. Thread-compatible.
struct LoadReport {
  std::string address;
  CallProfile profile;
  int payloads = 0;
  int connections = 0;
  LoadOptions options;
  LoadResult result;
  Verification verification;

  // Why the run counts as failed, one line each; empty if it passed.
  std::vector<std::string> Failures() const;

  std::string ToText() const;
  // Times in microseconds, null where nothing was measured. "latency_us" is
  // from the intended send, "service_us" from the actual one.
  nlohmann::ordered_json ToJson() const;
};

}  // namespace attn
