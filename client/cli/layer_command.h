// attn layer: tensors that the server keeps.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddLayerCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
