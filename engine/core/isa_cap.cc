#include "engine/core/isa_cap.h"

#include "engine/core/field_error.h"

namespace attn {
namespace {

struct CapName {
  IsaCap cap;
  const char* name;
};

constexpr CapName kNames[] = {{IsaCap::kNative, "native"},
                              {IsaCap::kSse4, "sse4"},
                              {IsaCap::kAvx2, "avx2"},
                              {IsaCap::kAvx512, "avx512"}};

}  // namespace

absl::string_view Name(IsaCap cap) {
  for (const CapName& entry : kNames) {
    if (entry.cap == cap) return entry.name;
  }
  return "?";
}

absl::StatusOr<IsaCap> ParseIsaCap(absl::string_view name) {
  for (const CapName& entry : kNames) {
    if (name == entry.name) return entry.cap;
  }
  return FieldError("max_isa", name, "native, sse4, avx2 or avx512");
}

}  // namespace attn
