// Layers on the wire: the two messages that hold payloads, read and written
// without parsing those into protobuf messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/aligned_buffer.h"
#include "engine/core/tensor_view.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/schema.h"

namespace attn {

// A decoded PutLayerRequest. Owns its payloads. Move-only.
struct PutLayerCall {
  struct Tensor {
    std::string name;
    // Row-major; borrows `data`.
    TensorView view;
    AlignedBuffer data;
  };
  std::string name;
  std::vector<Tensor> tensors;
};

// Reads `size` bytes. Each payload byte is copied once. INVALID_ARGUMENT names
// the field of what cannot be understood ("tensors[2].tensor.data");
// RESOURCE_EXHAUSTED if there are more than `max_tensors`, or if all but the
// payloads exceeds 1 MiB.
absl::StatusOr<PutLayerCall> DecodePutLayerRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int max_tensors);

// A tensor to write; `view` is row-major.
struct NamedView {
  std::string name;
  TensorView view;
};

// The chunks borrow the views' memory, which must outlive them. Byte for byte
// what the generated code would write.
std::vector<WireChunk> EncodePutLayerRequest(
    const std::string& name, const std::vector<NamedView>& tensors);
std::vector<WireChunk> EncodeGetLayerResponse(
    const v1::LayerInfo& info, const std::vector<NamedView>& tensors);

// "name", dtype and shape.
v1::NamedTensorInfo EncodeNamedTensorInfo(const NamedView& tensor);

}  // namespace attn
