// The threads on which gRPC calls back.
#pragma once

namespace attn {

// From the first call on, for as long as the process runs, they stay. Without
// that gRPC 1.51 ends them with the last channel that used them, and where one
// of them is who lets go of it, it waits for itself and goes on with what it
// has freed. Thread-safe.
void KeepCallbackThreads();

}  // namespace attn
