#include "proto/codec/layer_codec.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/field_reader.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"
#include "proto/codec/wire_message.h"

namespace attn {
namespace {

using google::protobuf::io::CodedInputStream;

constexpr int64_t kMaxMetadataBytes = int64_t{1} << 20;

constexpr int kNameField = v1::NamedTensor::kNameFieldNumber;
constexpr int kTensorField = v1::NamedTensor::kTensorFieldNumber;
constexpr int kTensorsField = v1::PutLayerRequest::kTensorsFieldNumber;
static_assert(kTensorsField == v1::GetLayerResponse::kTensorsFieldNumber);
static_assert(kNameField == v1::PutLayerRequest::kNameFieldNumber);

// Reads one PutLayerRequest: three levels of messages down to the payload.
class Reader {
 public:
  Reader(CodedInputStream& input, int max_tensors)
      : input_(input), max_tensors_(static_cast<size_t>(max_tensors)) {}

  absl::StatusOr<PutLayerCall> Read();

 private:
  absl::Status ReadNamed(FieldReader& fields);
  absl::Status ReadNamedFields(const std::string& field,
                               PutLayerCall::Tensor& tensor);
  absl::Status ReadTensor(FieldReader& fields, WireTensor& tensor);
  absl::Status ReadTensorFields(WireTensor& tensor);
  absl::Status ReadPayload(FieldReader& fields, WireTensor& tensor);
  absl::Status ReadName(FieldReader& fields, const std::string& field,
                        std::string& name);
  absl::Status Malformed(absl::string_view field) const;
  // Everything read that is no payload.
  absl::Status CheckMetadata(absl::string_view field) const;

  CodedInputStream& input_;
  const size_t max_tensors_;
  PutLayerCall call_;
  int64_t payload_bytes_ = 0;
};

absl::Status Reader::Malformed(absl::string_view field) const {
  return FieldError(
      field,
      absl::StrCat("malformed protobuf near byte ", input_.CurrentPosition()),
      "a well-formed message");
}

absl::Status Reader::CheckMetadata(absl::string_view field) const {
  const int64_t bytes = input_.CurrentPosition() - payload_bytes_;
  if (bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      field, ": metadata (all but tensor payloads) of ", bytes,
      " bytes or more exceeds the limit of ", kMaxMetadataBytes, " bytes"));
}

absl::StatusOr<PutLayerCall> Reader::Read() {
  FieldReader fields(input_);
  while (fields.Next()) {
    absl::Status status;
    if (fields.Number() == kTensorsField && fields.IsDelimited()) {
      status = ReadNamed(fields);
    } else if (fields.Number() == kNameField && fields.IsDelimited()) {
      status = ReadName(fields, "name", call_.name);
    } else {
      fields.Skip();
    }
    status.Update(CheckMetadata("PutLayerRequest"));
    if (!status.ok()) return status;
  }
  if (!fields.ok()) return Malformed("PutLayerRequest");
  return std::move(call_);
}

absl::Status Reader::ReadName(FieldReader& fields, const std::string& field,
                              std::string& name) {
  // What it may hold is the store's to say; this bounds what is taken for it.
  if (!fields.TakeBytes(&name)) return Malformed(field);
  return absl::OkStatus();
}

absl::Status Reader::ReadNamed(FieldReader& fields) {
  if (call_.tensors.size() >= max_tensors_) {
    return FieldError("tensors", "one tensor too many",
                      absl::StrCat("at most ", max_tensors_));
  }
  const std::string field = absl::StrCat("tensors[", call_.tensors.size(), "]");
  int length = 0;
  if (!fields.TakeLength(&length)) return Malformed(field);
  const CodedInputStream::Limit limit = input_.PushLimit(length);
  PutLayerCall::Tensor tensor;
  absl::Status status = ReadNamedFields(field, tensor);
  input_.PopLimit(limit);
  call_.tensors.push_back(std::move(tensor));
  return status;
}

absl::Status Reader::ReadNamedFields(const std::string& field,
                                     PutLayerCall::Tensor& tensor) {
  WireTensor wire;
  wire.name = absl::StrCat(field, ".tensor");
  bool present = false;
  FieldReader fields(input_);
  while (fields.Next()) {
    absl::Status status;
    if (fields.Number() == kTensorField && fields.IsDelimited()) {
      present = true;
      status = ReadTensor(fields, wire);
    } else if (fields.Number() == kNameField && fields.IsDelimited()) {
      status = ReadName(fields, absl::StrCat(field, ".name"), tensor.name);
    } else {
      fields.Skip();
    }
    status.Update(CheckMetadata(field));
    if (!status.ok()) return status;
  }
  if (!fields.ok()) return Malformed(field);
  if (!present) return FieldError(wire.name, "nothing", "a tensor");
  if (wire.metadata.layout() != v1::TENSOR_LAYOUT_UNSPECIFIED) {
    return FieldError(absl::StrCat(wire.name, ".layout"),
                      absl::StrCat(wire.metadata.layout()),
                      "none; only q, k and v have a layout");
  }
  auto view = DecodeTensor(wire);
  if (!view.ok()) return view.status();
  tensor.view = *std::move(view);
  tensor.data = std::move(wire.data);
  return absl::OkStatus();
}

absl::Status Reader::ReadTensor(FieldReader& fields, WireTensor& tensor) {
  int length = 0;
  if (!fields.TakeLength(&length)) return Malformed(tensor.name);
  const CodedInputStream::Limit limit = input_.PushLimit(length);
  absl::Status status = ReadTensorFields(tensor);
  input_.PopLimit(limit);
  return status;
}

absl::Status Reader::ReadTensorFields(WireTensor& tensor) {
  std::string metadata;
  FieldReader fields(input_);
  while (fields.Next()) {
    absl::Status status;
    if (fields.Number() == v1::Tensor::kDataFieldNumber &&
        fields.IsDelimited()) {
      status = ReadPayload(fields, tensor);
    } else {
      fields.CopyTo(&metadata);
    }
    status.Update(CheckMetadata(tensor.name));
    if (!status.ok()) return status;
  }
  if (!fields.ok() || !tensor.metadata.MergeFromString(metadata)) {
    return Malformed(tensor.name);
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadPayload(FieldReader& fields, WireTensor& tensor) {
  int length = 0;
  if (!fields.TakeLength(&length)) return Malformed(tensor.name);
  payload_bytes_ += length;
  tensor.data = AlignedBuffer(static_cast<size_t>(length));
  if (!input_.ReadRaw(tensor.data.data(), length)) {
    return Malformed(tensor.name);
  }
  return absl::OkStatus();
}

v1::Tensor Metadata(const TensorView& view) {
  return EncodeTensor(view.dtype, view.shape, /*bshd=*/false);
}

std::vector<WireChunk> Encode(const google::protobuf::MessageLite& head,
                              const std::vector<NamedView>& tensors) {
  ChunkWriter writer;
  writer.AddMessage(head);
  for (const NamedView& tensor : tensors) {
    v1::NamedTensor named;
    named.set_name(tensor.name);
    writer.AddNested(kTensorsField, named, kTensorField, Metadata(tensor.view),
                     RowMajorPayload(tensor.view));
  }
  return writer.Finish();
}

}  // namespace

absl::StatusOr<PutLayerCall> DecodePutLayerRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int max_tensors) {
  if (size < 0 || size > std::numeric_limits<int>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "PutLayerRequest: a message of ", size, " bytes exceeds the limit of ",
        std::numeric_limits<int>::max(), " bytes"));
  }
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(size));
  return Reader(input, max_tensors).Read();
}

std::vector<WireChunk> EncodePutLayerRequest(
    const std::string& name, const std::vector<NamedView>& tensors) {
  v1::PutLayerRequest head;
  head.set_name(name);
  return Encode(head, tensors);
}

std::vector<WireChunk> EncodeGetLayerResponse(
    const v1::LayerInfo& info, const std::vector<NamedView>& tensors) {
  v1::GetLayerResponse head;
  *head.mutable_layer() = info;
  return Encode(head, tensors);
}

v1::NamedTensorInfo EncodeNamedTensorInfo(const NamedView& tensor) {
  v1::NamedTensorInfo info;
  info.set_name(tensor.name);
  info.mutable_tensor()->set_dtype(EncodeDType(tensor.view.dtype));
  const auto dims = tensor.view.shape.dims();
  info.mutable_tensor()->mutable_shape()->Add(dims.begin(), dims.end());
  return info;
}

}  // namespace attn
