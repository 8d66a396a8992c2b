#include "server/inference/infer_message.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "proto/codec/call_decode.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/field_reader.h"
#include "proto/codec/wire_message.h"

namespace attn {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::io::CodedInputStream;
using Request = inference::ModelInferRequest;
using Input = Request::InferInputTensor;
using Contents = inference::InferTensorContents;

constexpr char kType[] = "ModelInferRequest";

// As an AttendRequest has.
constexpr size_t kMaxInputs = 256;

// Reads one message: two levels of messages down to the elements.
class InferReader {
 public:
  InferReader(CodedInputStream& input, int64_t max_payload_bytes)
      : input_(input), max_payload_bytes_(max_payload_bytes) {}

  absl::StatusOr<InferMessage> Read();

 private:
  absl::Status ReadField(FieldReader& fields);
  absl::Status ReadInput(FieldReader& fields);
  absl::Status ReadInputFields(InferContents& contents, std::string& others);
  absl::Status ReadContents(FieldReader& fields, InferContents& contents);
  absl::Status ReadElements(FieldReader& fields, InferContents& contents);
  absl::Status ReadRaw(FieldReader& fields);
  // Copies a field that `type` has, and passes over others.
  absl::Status CopyMetadata(const Descriptor* type, FieldReader& fields,
                            std::string& metadata);
  // Takes a length, and counts it among the payloads.
  absl::Status TakePayload(const char* name, FieldReader& fields, int* length);
  absl::Status Malformed(absl::string_view field) const;

  CodedInputStream& input_;
  const int64_t max_payload_bytes_;
  InferMessage message_;
  std::string metadata_;
  int64_t payload_bytes_ = 0;
  int64_t metadata_bytes_ = 0;
};

absl::Status InferReader::Malformed(absl::string_view field) const {
  return FieldError(
      field,
      absl::StrCat("malformed protobuf near byte ", input_.CurrentPosition()),
      "a well-formed message");
}

absl::StatusOr<InferMessage> InferReader::Read() {
  FieldReader fields(input_);
  while (fields.Next()) {
    absl::Status status = ReadField(fields);
    if (!status.ok()) return status;
  }
  if (!fields.ok()) return Malformed(kType);
  if (!message_.request.ParseFromString(metadata_)) {
    return FieldError(kType, "malformed protobuf in the metadata",
                      "a well-formed message, its strings in UTF-8");
  }
  return std::move(message_);
}

absl::Status InferReader::ReadField(FieldReader& fields) {
  if (fields.Number() == Request::kInputsFieldNumber && fields.IsDelimited()) {
    return ReadInput(fields);
  }
  if (fields.Number() == Request::kRawInputContentsFieldNumber &&
      fields.IsDelimited()) {
    return ReadRaw(fields);
  }
  return CopyMetadata(Request::descriptor(), fields, metadata_);
}

absl::Status InferReader::ReadInput(FieldReader& fields) {
  if (message_.contents.size() >= kMaxInputs) {
    return FieldError("inputs", "one tensor too many",
                      absl::StrCat("at most ", kMaxInputs));
  }
  int length = 0;
  if (!fields.TakeLength(&length)) return Malformed("inputs");
  const CodedInputStream::Limit limit = input_.PushLimit(length);
  std::string others;
  absl::Status status =
      ReadInputFields(message_.contents.emplace_back(), others);
  input_.PopLimit(limit);
  AppendDelimiter(Request::kInputsFieldNumber, others.size(), metadata_);
  metadata_ += others;
  return status;
}

absl::Status InferReader::ReadInputFields(InferContents& contents,
                                          std::string& others) {
  FieldReader fields(input_);
  while (fields.Next()) {
    const bool elements =
        fields.Number() == Input::kContentsFieldNumber && fields.IsDelimited();
    absl::Status status =
        elements ? ReadContents(fields, contents)
                 : CopyMetadata(Input::descriptor(), fields, others);
    if (!status.ok()) return status;
  }
  return fields.ok() ? absl::OkStatus() : Malformed("inputs");
}

absl::Status InferReader::ReadContents(FieldReader& fields,
                                       InferContents& contents) {
  int length = 0;
  absl::Status status = TakePayload("contents", fields, &length);
  if (!status.ok()) return status;
  contents.present = true;
  const CodedInputStream::Limit limit = input_.PushLimit(length);
  FieldReader elements(input_);
  while (status.ok() && elements.Next()) {
    status = ReadElements(elements, contents);
  }
  if (status.ok() && !elements.ok()) status = Malformed("inputs.contents");
  input_.PopLimit(limit);
  return status;
}

absl::Status InferReader::ReadElements(FieldReader& fields,
                                       InferContents& contents) {
  const int number = fields.Number();
  const bool floats = number == Contents::kFp32ContentsFieldNumber ||
                      number == Contents::kFp64ContentsFieldNumber;
  const bool first = contents.packed_field == 0 && contents.encoded.empty();
  if (first && floats && fields.IsDelimited()) {
    int length = 0;
    if (!fields.TakeLength(&length)) return Malformed("inputs.contents");
    contents.packed_field = number;
    contents.packed = AlignedBuffer(static_cast<size_t>(length));
    if (!input_.ReadRaw(contents.packed.data(), length)) {
      return Malformed("inputs.contents");
    }
    return absl::OkStatus();
  }
  if (contents.packed_field != 0) {
    // There is more: it joins the rest.
    AppendDelimiter(contents.packed_field, contents.packed.size(),
                    contents.encoded);
    contents.encoded.append(
        reinterpret_cast<const char*>(contents.packed.data()),
        contents.packed.size());
    contents.packed = AlignedBuffer();
    contents.packed_field = 0;
  }
  if (!fields.CopyTo(&contents.encoded)) return Malformed("inputs.contents");
  return absl::OkStatus();
}

absl::Status InferReader::ReadRaw(FieldReader& fields) {
  if (message_.raw.size() >= kMaxInputs) {
    return FieldError("raw_input_contents", "one tensor too many",
                      absl::StrCat("at most ", kMaxInputs));
  }
  int length = 0;
  absl::Status status = TakePayload("raw_input_contents", fields, &length);
  if (!status.ok()) return status;
  AlignedBuffer& raw = message_.raw.emplace_back(static_cast<size_t>(length));
  if (!input_.ReadRaw(raw.data(), length)) {
    return Malformed("raw_input_contents");
  }
  return absl::OkStatus();
}

absl::Status InferReader::TakePayload(const char* name, FieldReader& fields,
                                      int* length) {
  if (!fields.TakeLength(length)) return Malformed(name);
  payload_bytes_ += *length;
  if (payload_bytes_ <= max_payload_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      name, ": tensor payloads of ", payload_bytes_,
      " bytes or more exceed the limit of ", max_payload_bytes_, " bytes"));
}

absl::Status InferReader::CopyMetadata(const Descriptor* type,
                                       FieldReader& fields,
                                       std::string& metadata) {
  if (type->FindFieldByNumber(fields.Number()) == nullptr) {
    fields.Skip();
    return absl::OkStatus();
  }
  const int start = input_.CurrentPosition();
  if (!fields.CopyTo(&metadata)) return Malformed(kType);
  metadata_bytes_ += input_.CurrentPosition() - start;
  if (metadata_bytes_ <= kMaxMetadataBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      kType, ": metadata (all but tensor payloads) of ", metadata_bytes_,
      " bytes or more exceeds the limit of ", kMaxMetadataBytes, " bytes"));
}

}  // namespace

absl::StatusOr<InferMessage> ReadInferMessage(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  absl::Status fits = CheckWireSize(kType, size);
  if (!fits.ok()) return fits;
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(size));
  return InferReader(input, max_payload_bytes).Read();
}

}  // namespace attn
