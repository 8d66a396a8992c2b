// Ids for requests that bring none.
#pragma once

#include <string>

namespace attn {

// Unique in this process, and very likely among all servers. Thread-safe.
std::string MakeRequestId();

}  // namespace attn
