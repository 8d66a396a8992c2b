#include <utility>

#include "proto/codec/attend_codec.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/outputs.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

// What AttendRequest and PlanRequest share, but for the tensors.
template <typename Request>
void EncodeCommon(const AttendMessage& message, Request& request) {
  *request.mutable_spec() = EncodeSpec(message.spec);
  for (const OutputRow& row : kOutputRows) {
    if (message.wanted.*row.wanted) request.add_outputs(row.value);
  }
  if (message.output_dtype.has_value()) {
    request.set_output_dtype(EncodeDType(*message.output_dtype));
  }
  const AttentionArgs& args = message.args;
  request.mutable_q_lengths()->Add(args.q_lengths.begin(),
                                   args.q_lengths.end());
  request.mutable_kv_lengths()->Add(args.kv_lengths.begin(),
                                    args.kv_lengths.end());
  request.set_kernel(message.kernel);
}

void AddTensor(int field, const TensorView& view, bool bshd,
               ChunkWriter& writer) {
  const TensorView on_wire = ToLayout(view, bshd);
  writer.AddTensor(field, EncodeTensor(view.dtype, on_wire.shape, bshd),
                   RowMajorPayload(on_wire));
}

v1::TensorInfo EncodeInfo(const TensorView& view, bool bshd) {
  const TensorView on_wire = ToLayout(view, bshd);
  v1::TensorInfo info;
  info.set_dtype(EncodeDType(view.dtype));
  info.mutable_shape()->Add(on_wire.shape.dims().begin(),
                            on_wire.shape.dims().end());
  if (bshd) info.set_layout(v1::TENSOR_LAYOUT_BSHD);
  return info;
}

}  // namespace

std::vector<WireChunk> EncodeAttendRequest(const AttendMessage& message) {
  v1::AttendRequest request;
  EncodeCommon(message, request);
  request.set_request_id(message.request_id);

  using Numbers = v1::AttendRequest;
  const AttentionArgs& args = message.args;
  ChunkWriter writer;
  writer.AddMessage(request);
  AddTensor(Numbers::kQFieldNumber, args.q, message.bshd, writer);
  AddTensor(Numbers::kKFieldNumber, args.k, message.bshd, writer);
  AddTensor(Numbers::kVFieldNumber, args.v, message.bshd, writer);
  for (const TensorView& input : args.inputs) {
    AddTensor(Numbers::kInputsFieldNumber, input, /*bshd=*/false, writer);
  }
  return writer.Finish();
}

v1::PlanRequest EncodePlanRequest(const AttendMessage& message) {
  v1::PlanRequest request;
  EncodeCommon(message, request);
  const AttentionArgs& args = message.args;
  *request.mutable_q() = EncodeInfo(args.q, message.bshd);
  *request.mutable_k() = EncodeInfo(args.k, message.bshd);
  *request.mutable_v() = EncodeInfo(args.v, message.bshd);
  for (const TensorView& input : args.inputs) {
    *request.add_inputs() = EncodeInfo(input, /*bshd=*/false);
  }
  return request;
}

}  // namespace attn
