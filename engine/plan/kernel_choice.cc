#include "engine/plan/kernel_choice.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attn {
namespace {

constexpr int64_t kKeysOfTiles = 128;

constexpr size_t kMostPreferred = 2;

struct Preference {
  CpuClass cpu;
  WorkKind kind;
  // Asked in this order, before all others; null: no more.
  const char* kernels[kMostPreferred];
};

// What differs from the order of the kernels' table. The figures are of one
// thread, the shortest of many runs; `attn info --calibrate` measures them
// again.
constexpr Preference kPreferences[] = {
    // EPYC of the fourth generation, milliseconds in BF16, flash_onednn beside
    // flash_simd: p512 of tests/bench/peers/shapes.csv 4.69 and 5.56, p512c
    // 2.74 and 3.21, 12 heads of 128 rows and keys 0.56 and 0.62. oneDNN's
    // tiles of 64 x 64 x 256 reach 200 GFLOP/s of BF16, our own 115 of F32.
    // `decode` says itself for how many rows it is faster.
    {CpuClass::kAvx512Bf16, WorkKind::kTilesOfBf16, {"decode", "flash_onednn"}},
    // AMX: a product of BF16 takes about a tenth of the time of one in F32.
    {CpuClass::kAvx512Amx, WorkKind::kTilesOfBf16, {"decode", "flash_onednn"}},
    // The table's order stands for kAvx512: a Xeon of the fifth generation
    // without its tiles does 84 GFLOP/s of BF16 dots beside 176 of F32
    // multiply-adds; of these oneDNN's F32 tiles reach 77 %, our own 85 to 94.
};

// The place of the kernel among those preferred, or behind them.
size_t RankOf(const Kernel* kernel, const Preference& preference) {
  for (size_t rank = 0; rank < kMostPreferred; ++rank) {
    const char* name = preference.kernels[rank];
    if (name != nullptr && absl::string_view(name) == kernel->name()) {
      return rank;
    }
  }
  return kMostPreferred;
}

absl::Span<const Kernel* const> TableOf(const Problem& problem) {
  return problem.gradients.any() ? BackwardKernelTable() : KernelTable();
}

}  // namespace

WorkKind KindOf(const Problem& problem) {
  return problem.dtype == DType::kBF16 && problem.kv_dtype == DType::kBF16 &&
                 problem.shape.kv_length >= kKeysOfTiles
             ? WorkKind::kTilesOfBf16
             : WorkKind::kAny;
}

std::vector<const Kernel*> KernelsInOrder(const Problem& problem,
                                          CpuClass cpu) {
  const absl::Span<const Kernel* const> table = TableOf(problem);
  std::vector<const Kernel*> kernels(table.begin(), table.end());
  const WorkKind kind = KindOf(problem);
  for (const Preference& preference : kPreferences) {
    if (preference.cpu != cpu || preference.kind != kind) continue;
    std::stable_sort(kernels.begin(), kernels.end(),
                     [&preference](const Kernel* a, const Kernel* b) {
                       return RankOf(a, preference) < RankOf(b, preference);
                     });
  }
  return kernels;
}

}  // namespace attn
