#include "engine/kernels/kernel.h"
#include "engine/kernels/linear.h"
#include "engine/kernels/reference.h"
#include "engine/kernels/rowwise.h"

namespace attn {

absl::Span<const Kernel* const> KernelTable() {
  static const Kernel* const kKernels[] = {
      &LinearKernel(),
      &RowwiseKernel(),
      &ReferenceKernel(),
  };
  return kKernels;
}

}  // namespace attn
