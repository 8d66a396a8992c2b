// Ids of sessions.
#pragma once

#include <string>

namespace attn {

// 128 bits that nobody can guess, from the system's source of random numbers,
// as 32 lower-case hexadecimal digits. Thread-safe.
std::string MakeSessionId();

}  // namespace attn
