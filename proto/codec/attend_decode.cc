#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/field_error.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/outputs.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"
#include "proto/codec/wire_message.h"

namespace attn {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

// A byte of metadata can cost 30 bytes as a message: an empty Bias is 2 bytes
// on the wire. Real calls need some kilobytes; lengths of a batch of 100 000,
// half a megabyte.
constexpr int64_t kMaxMetadataBytes = int64_t{1} << 20;
// q, k, v, and more inputs than any pipeline has stages for.
constexpr int kMaxTensors = 256;

absl::Status SetWanted(int output, int index, WantedOutputs& wanted) {
  for (const OutputRow& row : kOutputRows) {
    if (row.value != output) continue;
    wanted.*row.wanted = true;
    return absl::OkStatus();
  }
  return EnumError(absl::StrCat("outputs[", index, "]"), output,
                   v1::Output_descriptor(), /*zero_is_legal=*/false);
}

absl::Status DecodeWanted(const google::protobuf::RepeatedField<int>& outputs,
                          WantedOutputs& wanted) {
  wanted.output = outputs.empty();
  for (int i = 0; i < outputs.size(); ++i) {
    absl::Status status = SetWanted(outputs[i], i, wanted);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat(request_id.size(), " bytes"),
                      absl::StrCat("at most ", kMaxRequestIdBytes, " bytes"));
  }
  for (const char c : request_id) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      return FieldError("request_id",
                        absl::StrFormat("control character 0x%02x", byte),
                        "printable text");
    }
  }
  return absl::OkStatus();
}

// What AttendRequest and PlanRequest share, but for the tensors.
template <typename Request>
absl::Status DecodeCommon(const Request& request, AttendCall& call) {
  auto spec = DecodeSpec(request.spec());
  if (!spec.ok()) return spec.status();
  call.spec = *std::move(spec);
  absl::Status status = DecodeWanted(request.outputs(), call.wanted);
  if (!status.ok()) return status;
  call.args.q_lengths.assign(request.q_lengths().begin(),
                             request.q_lengths().end());
  call.args.kv_lengths.assign(request.kv_lengths().begin(),
                              request.kv_lengths().end());
  call.kernel = request.kernel();
  return absl::OkStatus();
}

template <typename Request>
absl::Status DecodeOutputDType(const Request& request, AttendCall& call) {
  call.output_dtype = call.args.q.dtype;
  if (request.output_dtype() == v1::DATA_TYPE_UNSPECIFIED) {
    return absl::OkStatus();
  }
  auto dtype = DecodeDType(request.output_dtype(), "output_dtype");
  if (dtype.ok()) call.output_dtype = *dtype;
  return dtype.status();
}

// One of q, k, v and inputs, as it came, goes to its place in the call.
absl::Status Place(TensorView view, int field, v1::TensorLayout layout,
                   const std::string& name, AttendCall& call) {
  const bool is_input = field == v1::AttendRequest::kInputsFieldNumber;
  if (is_input && layout != v1::TENSOR_LAYOUT_UNSPECIFIED) {
    return FieldError(absl::StrCat(name, ".layout"), absl::StrCat(layout),
                      "none; only q, k and v have a layout");
  }
  auto placed = FromLayout(std::move(view), layout, name);
  if (!placed.ok()) return placed.status();
  if (is_input) {
    call.args.inputs.push_back(*std::move(placed));
  } else if (field == v1::AttendRequest::kQFieldNumber) {
    call.args.q = *std::move(placed);
    call.bshd = layout == v1::TENSOR_LAYOUT_BSHD;
  } else if (field == v1::AttendRequest::kKFieldNumber) {
    call.args.k = *std::move(placed);
  } else {
    call.args.v = *std::move(placed);
  }
  return absl::OkStatus();
}

absl::Status DecodeTensors(WireMessage& message, AttendCall& call) {
  for (WireTensor& tensor : message.tensors) {
    auto view = DecodeTensor(tensor);
    if (!view.ok()) return view.status();
    absl::Status status = Place(*std::move(view), tensor.field,
                                tensor.metadata.layout(), tensor.name, call);
    if (!status.ok()) return status;
    call.storage.push_back(std::move(tensor.data));
  }
  call.payload_bytes = message.payload_bytes;
  return absl::OkStatus();
}

absl::Status Missing(absl::string_view field) {
  return FieldError(field, "nothing", "a tensor");
}

absl::Status CheckPresent(const WireMessage& message) {
  struct Row {
    int field;
    const char* name;
  };
  static constexpr Row kRequired[] = {{v1::AttendRequest::kQFieldNumber, "q"},
                                      {v1::AttendRequest::kKFieldNumber, "k"},
                                      {v1::AttendRequest::kVFieldNumber, "v"}};
  for (const Row& row : kRequired) {
    const bool present = std::any_of(
        message.tensors.begin(), message.tensors.end(),
        [&row](const WireTensor& t) { return t.field == row.field; });
    if (!present) return Missing(row.name);
  }
  return absl::OkStatus();
}

absl::Status PlaceInfo(const v1::TensorInfo& info, int field,
                       const std::string& name, AttendCall& call) {
  auto view = DecodeTensorInfo(info, name);
  if (!view.ok()) return view.status();
  return Place(*std::move(view), field, info.layout(), name, call);
}

absl::Status DecodeInfos(const v1::PlanRequest& request, AttendCall& call) {
  if (!request.has_q()) return Missing("q");
  if (!request.has_k()) return Missing("k");
  if (!request.has_v()) return Missing("v");
  using Numbers = v1::PlanRequest;
  absl::Status status =
      PlaceInfo(request.q(), Numbers::kQFieldNumber, "q", call);
  status.Update(PlaceInfo(request.k(), Numbers::kKFieldNumber, "k", call));
  status.Update(PlaceInfo(request.v(), Numbers::kVFieldNumber, "v", call));
  for (int i = 0; i < request.inputs_size(); ++i) {
    status.Update(PlaceInfo(request.inputs(i), Numbers::kInputsFieldNumber,
                            absl::StrCat("inputs[", i, "]"), call));
  }
  return status;
}

}  // namespace

absl::StatusOr<AttendCall> DecodeAttendRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  auto message = ReadWireMessage(stream, size, v1::AttendRequest::descriptor(),
                                 {.payload_bytes = max_payload_bytes,
                                  .metadata_bytes = kMaxMetadataBytes,
                                  .tensors = kMaxTensors});
  if (!message.ok()) return message.status();
  v1::AttendRequest request;
  if (!request.ParseFromString(message->metadata)) {
    return FieldError("AttendRequest", "malformed protobuf in the metadata",
                      "a well-formed message, its strings in UTF-8");
  }
  AttendCall call;
  absl::Status status = DecodeCommon(request, call);
  if (status.ok()) status = CheckPresent(*message);
  if (status.ok()) status = DecodeTensors(*message, call);
  if (status.ok()) status = DecodeOutputDType(request, call);
  if (status.ok()) status = CheckRequestId(request.request_id());
  if (!status.ok()) return status;
  call.request_id = request.request_id();
  return call;
}

absl::StatusOr<AttendCall> DecodePlanRequest(const v1::PlanRequest& request) {
  AttendCall call;
  absl::Status status = DecodeCommon(request, call);
  if (status.ok()) status = DecodeInfos(request, call);
  if (status.ok()) status = DecodeOutputDType(request, call);
  if (!status.ok()) return status;
  return call;
}

}  // namespace attn
