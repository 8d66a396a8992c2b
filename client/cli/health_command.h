// `attn health`: whether a server serves.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddHealthCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
