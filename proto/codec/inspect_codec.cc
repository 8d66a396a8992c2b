#include "proto/codec/inspect_codec.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/call_decode.h"
#include "proto/codec/call_encode.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/enum_names.h"

namespace attn {
namespace {

// Each is a computation of its own.
constexpr int kMaxSweep = 64;

struct ViewRow {
  v1::InspectView value;
  bool InspectViews::*wanted;
};

constexpr ViewRow kViewRows[] = {
    {v1::INSPECT_VIEW_LOGITS, &InspectViews::logits},
    {v1::INSPECT_VIEW_MASKED_LOGITS, &InspectViews::masked_logits},
    {v1::INSPECT_VIEW_WEIGHTS, &InspectViews::weights},
    {v1::INSPECT_VIEW_CONTRIBUTION, &InspectViews::contribution},
    {v1::INSPECT_VIEW_GRADIENT_WEIGHT, &InspectViews::gradient_weight},
};

absl::Status SetView(int view, int index, InspectViews& views) {
  for (const ViewRow& row : kViewRows) {
    if (row.value != view) continue;
    views.*row.wanted = true;
    return absl::OkStatus();
  }
  return EnumError(absl::StrCat("views[", index, "]"), view,
                   v1::InspectView_descriptor(), /*zero_is_legal=*/false);
}

absl::Status CheckSweep(const v1::InspectRequest& request) {
  const int count = request.sweep_temperatures_size();
  if (count > kMaxSweep) {
    return FieldError("sweep_temperatures",
                      absl::StrCat(count, " temperatures"),
                      absl::StrCat("at most ", kMaxSweep));
  }
  for (int i = 0; i < count; ++i) {
    const double temperature = request.sweep_temperatures(i);
    if (std::isfinite(temperature) && temperature > 0) continue;
    return FieldError(absl::StrCat("sweep_temperatures[", i, "]"),
                      absl::StrCat(temperature), "a finite number above 0");
  }
  return absl::OkStatus();
}

absl::Status DecodeQuestion(const v1::InspectRequest& request,
                            InspectQuestion& question) {
  for (int i = 0; i < request.views_size(); ++i) {
    absl::Status status = SetView(request.views(i), i, question.views);
    if (!status.ok()) return status;
  }
  absl::Status status = CheckSweep(request);
  if (!status.ok()) return status;
  question.window = request.window();
  if (request.has_tiles()) question.tiles = request.tiles();
  question.sweep_temperatures.assign(request.sweep_temperatures().begin(),
                                     request.sweep_temperatures().end());
  return absl::OkStatus();
}

absl::Status TakeOperand(const char* operand, const v1::LayerTensor& named,
                         std::vector<OperandReference>& refs) {
  const std::string field = absl::StrCat(operand, "_layer");
  if (named.layer().empty() || named.tensor().empty()) {
    return FieldError(
        absl::StrCat(field, named.layer().empty() ? ".layer" : ".tensor"),
        "nothing", "a name");
  }
  refs.push_back({operand, named.layer(), named.tensor(), field});
  return absl::OkStatus();
}

// What stands in place of q, k and v.
absl::Status TakeOperands(const v1::InspectRequest& request,
                          std::vector<OperandReference>& refs) {
  absl::Status status;
  if (request.has_q_layer()) {
    status.Update(TakeOperand("q", request.q_layer(), refs));
  }
  if (request.has_k_layer()) {
    status.Update(TakeOperand("k", request.k_layer(), refs));
  }
  if (request.has_v_layer()) {
    status.Update(TakeOperand("v", request.v_layer(), refs));
  }
  return status;
}

absl::Status PlaceCotangent(InspectCall& call) {
  call.args.d_output = call.Extra(v1::InspectRequest::kDOutputFieldNumber);
  const bool missing = call.args.d_output.data == nullptr;
  if (call.question.views.gradient_weight && missing) {
    return MissingTensor("d_output");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InspectCall> DecodeInspectRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  v1::InspectRequest request;
  auto message = ReadRequest(stream, size, max_payload_bytes, request);
  if (!message.ok()) return message.status();
  InspectCall call;
  absl::Status status = TakeOperands(request, message->operand_refs);
  if (status.ok()) status = DecodeCall(request, *message, call);
  if (status.ok()) status = DecodeQuestion(request, call.question);
  if (status.ok()) status = PlaceCotangent(call);
  if (!status.ok()) return status;
  return call;
}

std::vector<WireChunk> EncodeInspectRequest(const InspectMessage& message) {
  const InspectQuestion& question = message.question;
  v1::InspectRequest request;
  EncodeSpecAndLengths(message, request);
  EncodeCallInfo(message, request);
  for (const ViewRow& row : kViewRows) {
    if (question.views.*row.wanted) request.add_views(row.value);
  }
  if (question.window.ByteSizeLong() > 0) {
    *request.mutable_window() = question.window;
  }
  if (question.tiles) *request.mutable_tiles() = *question.tiles;
  request.mutable_sweep_temperatures()->Add(question.sweep_temperatures.begin(),
                                            question.sweep_temperatures.end());

  ChunkWriter writer;
  writer.AddMessage(request);
  AddCallTensors(message, writer);
  if (message.args.d_output.data != nullptr) {
    AddTensorField(v1::InspectRequest::kDOutputFieldNumber,
                   message.args.d_output, message.bshd, writer);
  }
  return writer.Finish();
}

absl::StatusOr<InspectResult> DecodeInspectResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size) {
  return DecodeResult<v1::InspectResponse>(stream, size);
}

}  // namespace attn
