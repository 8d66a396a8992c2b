// The command line and the environment of attn-server.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/app/options.h"

namespace attn {

// A command line with the dashes of its flags' names made underscores, which
// is what Abseil knows; and the names that occur in it.
struct CommandLine {
  std::vector<std::string> arguments;
  std::set<std::string> names;
};
CommandLine NormalizeArguments(const std::vector<std::string>& arguments);

struct ParsedFlags {
  ServerOptions options;
  bool print_config = false;
  // One line for each flag: its value and where it comes from.
  std::string config;
};

// Reads ATTN_<FLAG> for each flag, then the command line, which wins. Like
// every Abseil program it ends the process for an unknown flag and for --help.
// INVALID_ARGUMENT, one line, for what is wrong in the environment or does not
// fit together. Once in a process: flags are global.
absl::StatusOr<ParsedFlags> ParseFlags(int argc, char** argv);

}  // namespace attn
