#include <algorithm>
#include <utility>

#include "engine/core/field_error.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/tensor_codec.h"
#include "proto/codec/wire_message.h"

namespace attn {
namespace {

absl::StatusOr<ResponseTensor> DecodeResponseTensor(WireTensor& tensor) {
  auto view = DecodeTensor(tensor);
  if (!view.ok()) return view.status();
  const v1::TensorLayout layout = tensor.metadata.layout();
  auto placed = FromLayout(*view, layout, tensor.name);
  if (!placed.ok()) return placed.status();
  return ResponseTensor{.field = tensor.field,
                        .dtype = view->dtype,
                        .shape = view->shape,
                        .bshd = layout == v1::TENSOR_LAYOUT_BSHD,
                        .data = std::move(tensor.data)};
}

}  // namespace

std::vector<WireChunk> EncodeAttendResponse(
    const v1::AttendResponse& header, std::vector<ResponseTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const ResponseTensor& a, const ResponseTensor& b) {
              return a.field < b.field;
            });
  ChunkWriter writer;
  writer.AddMessage(header);
  for (ResponseTensor& tensor : tensors) {
    const size_t size = static_cast<size_t>(tensor.shape.element_count()) *
                        SizeOf(tensor.dtype);
    writer.AddTensor(tensor.field,
                     EncodeTensor(tensor.dtype, tensor.shape, tensor.bshd),
                     {.owned = std::move(tensor.data), .size = size});
  }
  return writer.Finish();
}

const ResponseTensor* AttendResult::Find(int field) const {
  for (const ResponseTensor& tensor : tensors) {
    if (tensor.field == field) return &tensor;
  }
  return nullptr;
}

absl::StatusOr<AttendResult> DecodeAttendResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size) {
  auto message =
      ReadWireMessage(stream, size, v1::AttendResponse::descriptor(), {});
  if (!message.ok()) return message.status();
  AttendResult result;
  if (!result.header.ParseFromString(message->metadata)) {
    return FieldError("AttendResponse", "malformed protobuf in the metadata",
                      "a well-formed message, its strings in UTF-8");
  }
  for (WireTensor& tensor : message->tensors) {
    auto decoded = DecodeResponseTensor(tensor);
    if (!decoded.ok()) return decoded.status();
    result.tensors.push_back(*std::move(decoded));
  }
  return result;
}

}  // namespace attn
