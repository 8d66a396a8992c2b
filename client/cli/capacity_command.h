// `attn capacity`: what sessions need of cores, memory and network.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddCapacityCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
