#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/attend_parts.h"
#include "proto/codec/call_decode.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/outputs.h"
#include "proto/codec/packed_qkv.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

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

// What AttendRequest and PlanRequest share, but for the tensors.
template <typename Request>
absl::Status DecodeCommon(const Request& request, AttendCall& call) {
  absl::Status status = DecodeSpecAndLengths(request, call);
  if (status.ok()) status = DecodeWanted(request.outputs(), call.wanted);
  if (!status.ok()) return status;
  call.kernel = request.kernel();
  return absl::OkStatus();
}

// Once the tensors are in their places.
template <typename Request>
absl::Status DecodeQkv(const Request& request, AttendCall& call) {
  const TensorView qkv = call.Extra(Request::kQkvFieldNumber);
  if (qkv.shape.rank() == 0) {
    if (request.packed_kv_heads() == 0) return absl::OkStatus();
    return FieldError("packed_kv_heads",
                      absl::StrCat(request.packed_kv_heads()),
                      "none without qkv of rank 4");
  }
  for (const auto& [field, offsets] :
       {std::pair("q_offsets", &call.args.q_offsets),
        std::pair("kv_offsets", &call.args.kv_offsets)}) {
    if (offsets->empty()) continue;
    return FieldError(field, absl::StrCat(offsets->size(), " offsets"),
                      "none beside qkv");
  }
  call.bshd = true;
  return UnpackQkv(qkv, request.packed_kv_heads(), call.args);
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

absl::Status PlaceInfo(const v1::TensorInfo& info, int field,
                       const std::string& name, AttendCall& call) {
  auto view = DecodeTensorInfo(info, name);
  if (!view.ok()) return view.status();
  return PlaceTensor(*std::move(view), field, info.layout(), name, call);
}

absl::Status DecodeInfos(const v1::PlanRequest& request, AttendCall& call) {
  using Numbers = v1::PlanRequest;
  const struct {
    const char* name;
    int field;
    bool present;
    const v1::TensorInfo& info;
  } tensors[] = {{"q", Numbers::kQFieldNumber, request.has_q(), request.q()},
                 {"k", Numbers::kKFieldNumber, request.has_k(), request.k()},
                 {"v", Numbers::kVFieldNumber, request.has_v(), request.v()}};
  absl::Status status;
  for (const auto& row : tensors) {
    if (request.has_qkv() && row.present) return BesideQkv(row.name);
    if (request.has_qkv()) continue;
    if (!row.present) {
      const bool made = row.field == Numbers::kVFieldNumber;
      if (made && MakesValues(call.spec)) continue;
      return MissingTensor(row.name);
    }
    status.Update(PlaceInfo(row.info, row.field, row.name, call));
  }
  if (request.has_qkv()) {
    status = PlaceInfo(request.qkv(), Numbers::kQkvFieldNumber, "qkv", call);
  }
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
  return DecodeAttendParts(stream, size, max_payload_bytes, nullptr);
}

absl::StatusOr<AttendCall> DecodeAttendParts(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes, const TensorsHook& hook) {
  v1::AttendRequest request;
  auto message = ReadRequest(stream, size, max_payload_bytes, request);
  if (!message.ok()) return message.status();
  return DecodeAttendParts(request, *message, hook);
}

absl::StatusOr<AttendCall> DecodeAttendParts(const v1::AttendRequest& request,
                                             WireMessage& message,
                                             const TensorsHook& hook) {
  AttendCall call;
  absl::Status status = DecodeCommon(request, call);
  if (status.ok() && hook != nullptr) status = hook(message);
  if (status.ok()) status = DecodeTensors(message, call);
  if (status.ok()) status = DecodeQkv(request, call);
  if (status.ok()) status = DecodeOutputDType(request, call);
  if (status.ok()) status = DecodeCallInfo(request, call);
  if (!status.ok()) return status;
  return call;
}

absl::StatusOr<AttendCall> DecodePlanRequest(v1::PlanRequest request) {
  AttendCall call;
  auto layers = TakeLayerReferencesOf(
      request, static_cast<size_t>(request.inputs_size()));
  if (!layers.ok()) return layers.status();
  call.layer_refs = *std::move(layers);
  absl::Status status = DecodeCommon(request, call);
  if (status.ok()) status = DecodeInfos(request, call);
  if (status.ok()) status = DecodeQkv(request, call);
  if (status.ok()) status = DecodeOutputDType(request, call);
  if (!status.ok()) return status;
  return call;
}

}  // namespace attn
