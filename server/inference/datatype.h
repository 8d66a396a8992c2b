// Datatypes of the Open Inference Protocol.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/dtype.h"

namespace attn {

// "FP32" -> kF32. INVALID_ARGUMENT that names `field` for those that attention
// has no use for, BYTES among them.
absl::StatusOr<DType> ParseDatatype(absl::string_view datatype,
                                    absl::string_view field);
absl::string_view DatatypeOf(DType dtype);

}  // namespace attn
