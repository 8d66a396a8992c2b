// The allocators of the process, told what a server does with them.
#pragma once

#include <cstddef>

namespace attn {

// Keeps what the transport frees after each message in the process instead of
// giving it back and taking it again. Call first in main().
void TuneMalloc();

// Bounds what is kept of the payloads of requests that have ended, together
// with those inside: `max_bytes`.
void KeepBuffers(size_t max_bytes);

// Gives all of it back to the system. For a process at rest: who allocates
// meanwhile waits.
void TrimMemory();

}  // namespace attn
