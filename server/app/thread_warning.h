// Whether the compute threads fit the cores that there are.
#pragma once

#include <string>

#include "engine/runtime/cpu_quota.h"

namespace attn {

// One line for the log if `compute_threads`, as --compute-threads asked for (0:
// the quota's own number), are not as many as the quota has use for; empty if
// they are.
std::string ThreadWarning(int compute_threads, const CpuQuota& quota);

}  // namespace attn
