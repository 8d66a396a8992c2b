// The flags of sessions.
#pragma once

#include "absl/types/span.h"
#include "server/app/options.h"

namespace attn {

// Their names, as Abseil has them.
absl::Span<const char* const> SessionFlags();

// Their values. After the command line and the environment were read.
void AddSessionOptions(ServerOptions& options);

}  // namespace attn
