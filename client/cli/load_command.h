// `attn load`: how a server does under load.
#pragma once

#include "CLI/CLI.hpp"
#include "client/cli/command.h"

namespace attn {

void AddLoadCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
