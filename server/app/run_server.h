// The life of the attn-server process.
#pragma once

namespace attn {

// Parses, starts, waits for SIGTERM or SIGINT, stops. Returns the exit code: 0,
// or 1 after one line that says what is wrong.
int RunServer(int argc, char** argv);

}  // namespace attn
