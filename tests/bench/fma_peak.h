// What this machine's cores can do at most: the limit that kernels are held
// against.
#pragma once

#include <cstdint>

namespace attn {

// Floating-point operations of one call of SpinFma(), by one thread.
int64_t FmaFlops();

// F32 multiply-adds on registers alone, on the widest vectors there are, many
// chains side by side. Returns a value that depends on all of them.
float SpinFma();

}  // namespace attn
