// The allocator of a program that sends and takes large messages.
#pragma once

namespace attn {

// Keeps what is freed instead of giving it back and faulting it in again: at
// 16 MiB that costs as much as a copy. Call first in main().
void KeepFreedMemory();

}  // namespace attn
