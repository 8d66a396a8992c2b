#include "proto/codec/wire_message.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "proto/codec/field_reader.h"

namespace attn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

// Reads one message.
class Reader {
 public:
  Reader(CodedInputStream& input, const Descriptor* type,
         const WireLimits& limits)
      : input_(input), type_(type), limits_(limits) {}

  absl::StatusOr<WireMessage> Read();

 private:
  bool IsTensor(const FieldDescriptor& field) const {
    return field.number() >= kFirstTensorField &&
           field.message_type() == v1::Tensor::descriptor();
  }
  absl::Status ReadField(const FieldDescriptor& field, FieldReader& fields);
  absl::Status ReadTensor(WireTensor& tensor, FieldReader& fields);
  absl::Status ReadTensorFields(WireTensor& tensor);
  absl::Status ReadPayload(WireTensor& tensor, FieldReader& fields);
  absl::Status CopyMetadata(FieldReader& fields, const std::string& owner,
                            std::string& metadata);
  // The tensor that an occurrence of `field` goes to.
  absl::StatusOr<WireTensor*> Find(const FieldDescriptor& field);
  absl::Status Malformed(const std::string& field) const;

  CodedInputStream& input_;
  const Descriptor* type_;
  WireLimits limits_;
  WireMessage message_;
  // Tensors so far, by the number of their field.
  std::map<int, int> counts_;
  int64_t metadata_bytes_ = 0;
};

absl::Status Reader::Malformed(const std::string& field) const {
  return FieldError(
      field,
      absl::StrCat("malformed protobuf near byte ", input_.CurrentPosition()),
      "a well-formed message");
}

absl::StatusOr<WireMessage> Reader::Read() {
  FieldReader fields(input_);
  while (fields.Next()) {
    const FieldDescriptor* field = type_->FindFieldByNumber(fields.Number());
    if (field == nullptr) {
      fields.Skip();
      continue;
    }
    if (absl::Status status = ReadField(*field, fields); !status.ok()) {
      return status;
    }
  }
  if (!fields.ok()) return Malformed(type_->name());
  return std::move(message_);
}

absl::Status Reader::ReadField(const FieldDescriptor& field,
                               FieldReader& fields) {
  if (!IsTensor(field)) {
    return CopyMetadata(fields, type_->name(), message_.metadata);
  }
  if (!fields.IsDelimited()) {
    // As the generated parser does with a field of another wire type.
    fields.Skip();
    return absl::OkStatus();
  }
  auto tensor = Find(field);
  if (!tensor.ok()) return tensor.status();
  return ReadTensor(**tensor, fields);
}

absl::StatusOr<WireTensor*> Reader::Find(const FieldDescriptor& field) {
  const int index = counts_[field.number()]++;
  if (index > 0 && !field.is_repeated()) {
    return &*std::find_if(
        message_.tensors.begin(), message_.tensors.end(),
        [&](const WireTensor& t) { return t.field == field.number(); });
  }
  if (message_.tensors.size() >= static_cast<size_t>(limits_.tensors)) {
    return FieldError(field.name(), "one tensor too many",
                      absl::StrCat("at most ", limits_.tensors, " in all"));
  }
  WireTensor& tensor = message_.tensors.emplace_back();
  tensor.field = field.number();
  tensor.name = field.is_repeated()
                    ? absl::StrCat(field.name(), "[", index, "]")
                    : field.name();
  return &tensor;
}

absl::Status Reader::ReadTensor(WireTensor& tensor, FieldReader& fields) {
  int length = 0;
  if (!fields.TakeLength(&length)) {
    return Malformed(tensor.name);
  }
  const CodedInputStream::Limit limit = input_.PushLimit(length);
  absl::Status status = ReadTensorFields(tensor);
  input_.PopLimit(limit);
  return status;
}

absl::Status Reader::ReadTensorFields(WireTensor& tensor) {
  std::string metadata;
  FieldReader fields(input_);
  while (fields.Next()) {
    const bool is_payload =
        fields.Number() == v1::Tensor::kDataFieldNumber && fields.IsDelimited();
    absl::Status status = is_payload
                              ? ReadPayload(tensor, fields)
                              : CopyMetadata(fields, tensor.name, metadata);
    if (!status.ok()) return status;
  }
  if (!fields.ok() || !tensor.metadata.MergeFromString(metadata)) {
    return Malformed(tensor.name);
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadPayload(WireTensor& tensor, FieldReader& fields) {
  int length = 0;
  if (!fields.TakeLength(&length)) {
    return Malformed(tensor.name);
  }
  const int64_t total = message_.payload_bytes -
                        static_cast<int64_t>(tensor.data.size()) + length;
  if (total > limits_.payload_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(tensor.name, ".data: tensor payloads of ", total,
                     " bytes or more exceed the limit of ",
                     limits_.payload_bytes, " bytes"));
  }
  message_.payload_bytes = total;
  tensor.data = AlignedBuffer(static_cast<size_t>(length));
  if (!input_.ReadRaw(tensor.data.data(), length)) {
    return Malformed(tensor.name);
  }
  return absl::OkStatus();
}

absl::Status Reader::CopyMetadata(FieldReader& fields, const std::string& owner,
                                  std::string& metadata) {
  const int start = input_.CurrentPosition();
  if (!fields.CopyTo(&metadata)) return Malformed(owner);
  metadata_bytes_ += input_.CurrentPosition() - start;
  if (metadata_bytes_ > limits_.metadata_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(owner, ": metadata (all but tensor payloads) of ",
                     metadata_bytes_, " bytes or more exceeds the limit of ",
                     limits_.metadata_bytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWireSize(const std::string& type, int64_t size) {
  static constexpr int64_t kMaxMessageBytes = std::numeric_limits<int>::max();
  if (size >= 0 && size <= kMaxMessageBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(type, ": a message of ", size,
                   " bytes exceeds the limit of ", kMaxMessageBytes, " bytes"));
}

absl::StatusOr<WireMessage> ReadWireMessage(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    const Descriptor* type, const WireLimits& limits) {
  absl::Status fits = CheckWireSize(type->name(), size);
  if (!fits.ok()) return fits;
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(size));
  return Reader(input, type, limits).Read();
}

}  // namespace attn
