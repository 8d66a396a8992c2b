// attn session: keys and values that the server keeps from step to step.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddSessionCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
