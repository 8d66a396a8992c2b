// attn inspect: looks inside one call.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddInspectCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
