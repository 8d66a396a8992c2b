#include "engine/kernels/onednn_matmul.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "oneapi/dnnl/dnnl.h"

namespace attn {
namespace {

struct RightOperand {
  char transposed;
  ConstMatrix matrix;
};

// c = product * a * b + old * c
struct Factors {
  float product = 1;
  float old = 0;
};

// dnnl_sgemm and not matmul primitives: it has no code to generate for a new
// shape (98 us with 2.6.3), nothing to cache for each thread, and no scratchpad
// that threads could share by mistake. It is the same function in oneDNN 2.6
// and 3.7.
void Gemm(const ProductSize& size, const Factors& factors, ConstMatrix a,
          RightOperand b, Matrix c) {
  // Leading dimensions of 0 are refused.
  const auto leading = [](int64_t stride) {
    return std::max<int64_t>(stride, 1);
  };
  const dnnl_status_t status = dnnl_sgemm(
      'N', b.transposed, size.rows, size.columns, size.inner, factors.product,
      a.data, leading(a.stride), b.matrix.data, leading(b.matrix.stride),
      factors.old, c.data, leading(c.stride));
  if (status != dnnl_success) {
    std::fprintf(stderr, "dnnl_sgemm refused its arguments: status %d\n",
                 static_cast<int>(status));
    std::abort();
  }
}

void SetToZero(const ProductSize& size, Matrix c) {
  for (int64_t r = 0; r < size.rows; ++r) {
    std::fill_n(c.data + r * c.stride, size.columns, 0.0F);
  }
}

}  // namespace

void MultiplyTransposed(const ProductSize& size, float alpha, ConstMatrix a,
                        ConstMatrix b, Matrix c) {
  if (size.rows == 0 || size.columns == 0) return;
  if (size.inner == 0) return SetToZero(size, c);
  Gemm(size, {.product = alpha}, a, {'T', b}, c);
}

void Multiply(const ProductSize& size, ConstMatrix a, ConstMatrix b,
              bool accumulate, Matrix c) {
  if (size.rows == 0 || size.columns == 0) return;
  if (size.inner == 0) {
    if (!accumulate) SetToZero(size, c);
    return;
  }
  Gemm(size, {.old = accumulate ? 1.0F : 0.0F}, a, {'N', b}, c);
}

std::string OneDnnLibraryVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace attn
