// A ModelInferRequest as it lies on the wire: payloads gathered, all else read
// by the generated parser.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/aligned_buffer.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "inference/open_inference.pb.h"

namespace attn {

// The InferTensorContents of an input. Move-only; thread-compatible.
struct InferContents {
  // Whether the input has any.
  bool present = false;
  // Those of one packed field of floats lie there as they do in memory.
  // 0: there is no such field, or there is more than it.
  int packed_field = 0;
  AlignedBuffer packed;
  // All others as they came (typed_contents.h).
  std::string encoded;
};

// Move-only; thread-compatible.
struct InferMessage {
  // All but the contents of its inputs, and the raw ones.
  inference::ModelInferRequest request;
  // One for each of request.inputs().
  std::vector<InferContents> contents;
  std::vector<AlignedBuffer> raw;
};

// Reads `size` bytes; the fields may come in any order. Each byte of a payload
// is copied once. INVALID_ARGUMENT for malformed bytes, RESOURCE_EXHAUSTED if
// the contents exceed `max_payload_bytes`, all else 1 MiB, or if there are more
// than 256 inputs. No length is believed before it was held against the bytes
// that are left.
absl::StatusOr<InferMessage> ReadInferMessage(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes);

}  // namespace attn
