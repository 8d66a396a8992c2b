// Element types by the names that people write.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/dtype.h"

namespace attn {

// "f32", "bf16", "F16", "f64". INVALID_ARGUMENT names `field`.
absl::StatusOr<DType> ParseFloatDType(const std::string& name,
                                      absl::string_view field);

}  // namespace attn
