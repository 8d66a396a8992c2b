// The allocator, told about payloads.
#pragma once

namespace attn {

// Keeps the memory of large payloads in the process instead of mapping and
// unmapping it for each request: at 16 MiB the page faults cost as much as a
// copy. Call first in main().
void TuneMalloc();

}  // namespace attn
