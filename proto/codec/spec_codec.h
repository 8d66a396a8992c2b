// AttentionSpec on the wire. One line for each stage member.
#pragma once

#include "absl/status/statusor.h"
#include "engine/core/attention_spec.h"
#include "engine/core/dtype.h"
#include "proto/codec/schema.h"

namespace attn {

// INVALID_ARGUMENT that names the field ("spec.biases[0]") for an unset oneof
// or an unknown enum value. Values are checked later, by the engine.
absl::StatusOr<AttentionSpec> DecodeSpec(const v1::AttentionSpec& message);
v1::AttentionSpec EncodeSpec(const AttentionSpec& spec);

// DATA_TYPE_UNSPECIFIED is an error too.
absl::StatusOr<DType> DecodeDType(v1::DataType dtype, absl::string_view field);
v1::DataType EncodeDType(DType dtype);

}  // namespace attn
