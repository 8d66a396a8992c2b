// A message whose Tensor fields are gathered into aligned memory while it is
// read; all its other fields are left to the generated parser.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/aligned_buffer.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/layer_refs.h"
#include "proto/codec/schema.h"

namespace attn {

// Fields from here on that are Tensors are gathered.
inline constexpr int kFirstTensorField = 16;

// What a message may hold. Metadata is all but payloads; a byte of it can cost
// far more than a byte of memory once parsed, so it has a bound of its own.
struct WireLimits {
  int64_t payload_bytes = std::numeric_limits<int64_t>::max();
  int64_t metadata_bytes = std::numeric_limits<int64_t>::max();
  int tensors = std::numeric_limits<int>::max();
};

// A Tensor: `metadata` without data, merged as protobuf merges if the field
// came more than once, and the payload that came last.
struct WireTensor {
  int field = 0;
  // As errors name it: "q", "inputs[2]".
  std::string name;
  v1::Tensor metadata;
  AlignedBuffer data;
  // The memory is there, its bytes come later (chunk_assembly.h).
  bool pending = false;
};

struct WireMessage {
  // The other fields, for the generated parser.
  std::string metadata;
  // In the order in which they came first.
  std::vector<WireTensor> tensors;
  // Filled by those who parse the metadata (call_decode.h).
  std::vector<LayerReference> layer_refs;
  std::vector<OperandReference> operand_refs;
  int64_t payload_bytes = 0;
};

// RESOURCE_EXHAUSTED for a message that nobody can hold: sizes are ints in
// every implementation of protobuf.
absl::Status CheckWireSize(const std::string& type, int64_t size);

// Reads `size` bytes as a message of `type`; the fields may come in any order.
// Each payload byte is copied once. Fields that `type` does not have are
// skipped. INVALID_ARGUMENT for malformed bytes, RESOURCE_EXHAUSTED beyond the
// limits.
absl::StatusOr<WireMessage> ReadWireMessage(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    const google::protobuf::Descriptor* type, const WireLimits& limits);

}  // namespace attn
