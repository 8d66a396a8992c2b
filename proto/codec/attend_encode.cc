#include <utility>

#include "proto/codec/attend_codec.h"
#include "proto/codec/attend_parts.h"
#include "proto/codec/call_encode.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/outputs.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

// What AttendRequest and PlanRequest share, but for the tensors.
template <typename Request>
void EncodeCommon(const AttendMessage& message, Request& request) {
  EncodeSpecAndLengths(message, request);
  for (const OutputRow& row : kOutputRows) {
    if (message.wanted.*row.wanted) request.add_outputs(row.value);
  }
  if (message.output_dtype.has_value()) {
    request.set_output_dtype(EncodeDType(*message.output_dtype));
  }
  request.set_kernel(message.kernel);
  request.set_packed_kv_heads(message.packed_kv_heads);
}

v1::TensorInfo EncodeInfo(const TensorView& view, bool bshd) {
  const TensorView on_wire = ToLayout(view, bshd);
  v1::TensorInfo info;
  info.set_dtype(EncodeDType(view.dtype));
  info.mutable_shape()->Add(on_wire.shape.dims().begin(),
                            on_wire.shape.dims().end());
  if (bshd && view.shape.rank() == 4) info.set_layout(v1::TENSOR_LAYOUT_BSHD);
  return info;
}

}  // namespace

std::vector<WireChunk> EncodeAttendRequest(const AttendMessage& message) {
  ChunkWriter writer;
  WriteAttendRequest(message, writer);
  return writer.Finish();
}

void WriteAttendRequest(const AttendMessage& message, ChunkWriter& writer) {
  v1::AttendRequest request;
  EncodeCommon(message, request);
  EncodeCallInfo(message, request);

  writer.AddMessage(request);
  if (message.packed()) {
    AddInputTensors(message, writer);
    AddTensorField(v1::AttendRequest::kQkvFieldNumber, message.qkv,
                   /*bshd=*/false, writer);
  } else {
    AddCallTensors(message, writer);
  }
}

v1::PlanRequest EncodePlanRequest(const AttendMessage& message) {
  v1::PlanRequest request;
  EncodeCommon(message, request);
  const AttentionArgs& args = message.args;
  if (message.packed()) {
    *request.mutable_qkv() = EncodeInfo(message.qkv, /*bshd=*/false);
  } else {
    *request.mutable_q() = EncodeInfo(args.q, message.bshd);
    *request.mutable_k() = EncodeInfo(args.k, message.bshd);
  }
  if (!message.packed() && !MakesValues(message.spec)) {
    *request.mutable_v() = EncodeInfo(args.v, message.bshd);
  }
  for (const TensorView& input : args.inputs) {
    *request.add_inputs() = EncodeInfo(input, /*bshd=*/false);
  }
  return request;
}

}  // namespace attn
