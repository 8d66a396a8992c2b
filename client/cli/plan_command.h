// `attn plan`: how a call would be computed, and what it would cost.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddPlanCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
