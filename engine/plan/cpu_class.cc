#include "engine/plan/cpu_class.h"

#include "engine/kernels/onednn_matmul.h"
#include "engine/tile/vector_isa.h"

namespace attn {
namespace {

// The flag alone does not say how fast it is: on one core, Intel's processors
// of the fifth generation do 84 GFLOP/s of BF16 dots beside 176 of F32
// multiply-adds, AMD's of the fourth 230 beside 118.
bool HasFastBf16Dots() {
#if defined(__x86_64__)
  return OneDnnNarrowProducts() != NarrowProducts::kNone &&
         __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

CpuClass ClassOfAvx512() {
  if (OneDnnNarrowProducts() == NarrowProducts::kTiles) {
    return CpuClass::kAvx512Amx;
  }
  return HasFastBf16Dots() ? CpuClass::kAvx512Bf16 : CpuClass::kAvx512;
}

}  // namespace

const char* Name(CpuClass cpu) {
  switch (cpu) {
    case CpuClass::kPortable:
      return "portable";
    case CpuClass::kSse4:
      return "sse4";
    case CpuClass::kAvx2:
      return "avx2";
    case CpuClass::kAvx512:
      return "avx512";
    case CpuClass::kAvx512Bf16:
      return "avx512_bf16";
    case CpuClass::kAvx512Amx:
      return "avx512_amx";
    case CpuClass::kNeon:
      return "neon";
    case CpuClass::kSve:
      return "sve";
  }
  return "?";
}

CpuClass DetectCpuClass() {
  switch (WidestVectors()) {
    case VectorIsa::kPortable:
      return CpuClass::kPortable;
    case VectorIsa::kSse4:
      return CpuClass::kSse4;
    case VectorIsa::kAvx2:
      return CpuClass::kAvx2;
    case VectorIsa::kAvx512:
      return ClassOfAvx512();
    case VectorIsa::kNeon:
      return CpuClass::kNeon;
    case VectorIsa::kSve:
      return CpuClass::kSve;
  }
  return CpuClass::kPortable;
}

}  // namespace attn
