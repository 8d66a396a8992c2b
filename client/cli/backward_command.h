// `attn backward`: the gradients of one attention call from files.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddBackwardCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
