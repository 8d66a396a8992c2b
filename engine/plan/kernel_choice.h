// Which kernel is asked first: by what a problem is like, and by the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/problem.h"
#include "engine/kernels/kernel.h"
#include "engine/plan/cpu_class.h"

namespace attn {

// What forward problems have in common, as far as the choice goes.
enum class WorkKind : uint8_t {
  kAny = 1,
  // Of BF16, and with enough keys to fill tiles.
  kTilesOfBf16 = 2,
};

WorkKind KindOf(const Problem& problem);

// The kernels of the forward or backward table: in the table's order, but for
// those that are faster for work of the problem's kind on machines of the
// class, which come first. The first that supports the problem is chosen. A
// pure function, so that replicas on one class choose alike, and their bits
// agree.
std::vector<const Kernel*> KernelsInOrder(const Problem& problem, CpuClass cpu);

}  // namespace attn
