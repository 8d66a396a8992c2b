// The options of the program itself, which every command takes as well.
#pragma once

#include "CLI/CLI.hpp"
#include "client/cli/command.h"

namespace attn {

void AddGlobalFlags(CLI::App& app, GlobalOptions& options);

// What they mean for the process. INVALID_ARGUMENT names the flag that cannot
// be used.
absl::Status ApplyGlobalFlags(const GlobalOptions& options);

}  // namespace attn
