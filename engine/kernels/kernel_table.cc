#include "engine/kernels/backward.h"
#include "engine/kernels/decode.h"
#include "engine/kernels/flash_onednn.h"
#include "engine/kernels/flash_simd.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/linear.h"
#include "engine/kernels/linear_backward.h"
#include "engine/kernels/reference.h"
#include "engine/kernels/rowwise.h"
#include "engine/kernels/softmax_backward.h"

namespace attn {

absl::Span<const Kernel* const> KernelTable() {
  static const Kernel* const kKernels[] = {
      &LinearKernel(),      &DecodeKernel(),  &FlashSimdKernel(),
      &FlashOneDnnKernel(), &RowwiseKernel(), &ReferenceKernel(),
  };
  return kKernels;
}

absl::Span<const Kernel* const> BackwardKernelTable() {
  static const Kernel* const kKernels[] = {
      &LinearBackwardKernel(),
      &SoftmaxBackwardKernel(),
      &BackwardKernel(),
  };
  return kKernels;
}

}  // namespace attn
