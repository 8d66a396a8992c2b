// `attn info`: describes a server.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddInfoCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
