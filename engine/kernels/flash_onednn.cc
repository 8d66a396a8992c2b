#include "engine/kernels/flash_onednn.h"

#include <string>

#include "engine/kernels/flash_simd.h"
#include "engine/kernels/onednn_matmul.h"
#include "engine/kernels/online_state.h"
#include "engine/kernels/pipeline.h"

namespace attn {
namespace {

class FlashOneDnn final : public Kernel {
 public:
  const char* name() const override { return "flash_onednn"; }
  std::string WhyNot(const Problem& problem) const override {
    if (problem.dtype != DType::kBF16 || problem.kv_dtype != DType::kBF16) {
      return "multiplies q and k in BF16; they are of another type";
    }
    const std::string why_not = WhyNotOnline(problem);
    if (!why_not.empty()) return why_not;
    const Pipeline pipeline(problem);
    if (pipeline.prepares(Side::kQuery) || pipeline.prepares(Side::kKey)) {
      return "transformed queries and keys are wider than BF16";
    }
    // Last: whatever the call lacks, it lacks on every machine.
    return OneDnnNarrowProducts() == NarrowProducts::kNone
               ? "this machine has no products of BF16"
               : "";
  }
  std::unique_ptr<const Execution> Prepare(
      const Problem& problem) const override {
    return MakeFlashExecution(problem, KeyFormat::kBf16Rows);
  }
};

}  // namespace

const Kernel& FlashOneDnnKernel() {
  static const FlashOneDnn kKernel;
  return kKernel;
}

}  // namespace attn
