// The typed contents of an input as the payload of a tensor.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/aligned_buffer.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "proto/codec/chunk_assembly.h"
#include "server/inference/infer_message.h"

namespace attn {

// The elements of `contents`, row-major: one for each of `shape`, of the field
// that the protocol has for `dtype`. Packed floats are not copied; for others,
// `book` is asked for the bytes of the payload before they are taken. Empties
// `contents`. INVALID_ARGUMENT that names "<name>.contents" for another number
// of elements, another field, or a number that an INT8 does not hold.
absl::StatusOr<AlignedBuffer> DecodeContents(InferContents& contents,
                                             DType dtype, const Shape& shape,
                                             const std::string& name,
                                             const BookBytes& book);

}  // namespace attn
