// `attn attend`: computes one attention call from files.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddAttendCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
