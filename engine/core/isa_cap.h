// The widest instruction set that a process may use.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

// What a machine lacks it does not use, whatever the cap.
enum class IsaCap : uint8_t {
  kNative = 1,  // all that the machine has
  kSse4 = 2,
  kAvx2 = 3,
  // AVX-512 of Skylake; neither its dot products of BF16 nor AMX.
  kAvx512 = 4,
};

// "native", "sse4", "avx2", "avx512"
absl::string_view Name(IsaCap cap);

// The reverse; INVALID_ARGUMENT names "max_isa".
absl::StatusOr<IsaCap> ParseIsaCap(absl::string_view name);

}  // namespace attn
