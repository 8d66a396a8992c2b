// `attn check`: runs a folder of cases with known answers.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddCheckCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
