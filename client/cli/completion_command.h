// attn completion: scripts for shells.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddCompletionCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
