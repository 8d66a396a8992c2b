// attn convert: tensors from one kind of file to another.
#pragma once

#include "client/cli/command.h"

namespace attn {

void AddConvertCommand(CLI::App& app, GlobalOptions& options);

}  // namespace attn
