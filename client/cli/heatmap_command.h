// attn heatmap: logits beside weights, as a figure.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddHeatmapCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
