#include "proto/codec/response_codec.h"

#include <algorithm>
#include <utility>

#include "engine/core/field_error.h"
#include "proto/codec/tensor_codec.h"

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

std::vector<WireChunk> EncodeResponse(const google::protobuf::Message& header,
                                      std::vector<ResponseTensor> tensors) {
  ChunkWriter writer;
  WriteResponse(header, std::move(tensors), writer);
  return writer.Finish();
}

void WriteResponse(const google::protobuf::Message& header,
                   std::vector<ResponseTensor> tensors, ChunkWriter& writer) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const ResponseTensor& a, const ResponseTensor& b) {
                     return a.field < b.field;
                   });
  writer.AddMessage(header);
  for (ResponseTensor& tensor : tensors) {
    const size_t size = static_cast<size_t>(tensor.shape.element_count()) *
                        SizeOf(tensor.dtype);
    writer.AddTensor(tensor.field,
                     EncodeTensor(tensor.dtype, tensor.shape, tensor.bshd),
                     {.owned = std::move(tensor.data), .size = size});
  }
}

absl::StatusOr<std::vector<ResponseTensor>> ReadResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    google::protobuf::Message& header, const TensorsHook& hook) {
  const google::protobuf::Descriptor* type = header.GetDescriptor();
  auto message = ReadWireMessage(stream, size, type, {});
  if (!message.ok()) return message.status();
  if (!header.ParseFromString(message->metadata)) {
    return FieldError(type->name(), "malformed protobuf in the metadata",
                      "a well-formed message, its strings in UTF-8");
  }
  if (hook != nullptr) {
    absl::Status status = hook(*message);
    if (!status.ok()) return status;
  }
  std::vector<ResponseTensor> tensors;
  for (WireTensor& tensor : message->tensors) {
    auto decoded = DecodeResponseTensor(tensor);
    if (!decoded.ok()) return decoded.status();
    tensors.push_back(*std::move(decoded));
  }
  return tensors;
}

}  // namespace attn
