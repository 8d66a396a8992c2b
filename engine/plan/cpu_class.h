// Kinds of machines that compute alike.
#pragma once

#include <cstdint>

namespace attn {

// Machines of one class choose the same kernels and give the same bits.
enum class CpuClass : uint8_t {
  kPortable = 1,
  kSse4 = 2,
  kAvx2 = 3,
  // Dots of BF16 in vectors are no faster than F32 multiply-adds, or there are
  // none.
  kAvx512 = 4,
  // They are twice as fast.
  kAvx512Bf16 = 5,
  // Tiles of BF16: 16 times as fast.
  kAvx512Amx = 6,
  kNeon = 7,
  kSve = 8,
};

// "avx512_bf16", ...
const char* Name(CpuClass cpu);

// The class of this machine under the cap on its instruction set. Thread-safe.
CpuClass DetectCpuClass();

}  // namespace attn
