#include "proto/codec/backward_codec.h"
#include "proto/codec/call_encode.h"
#include "proto/codec/chunk_writer.h"

namespace attn {
namespace {

using Request = v1::AttendBackwardRequest;

void EncodeGradients(const GradientSelection& wanted, Request& request) {
  if (wanted.q) request.add_gradients(v1::GRADIENT_Q);
  if (wanted.k) request.add_gradients(v1::GRADIENT_K);
  if (wanted.v) request.add_gradients(v1::GRADIENT_V);
  if (wanted.inputs.empty()) return;
  request.add_gradients(v1::GRADIENT_INPUTS);
  request.mutable_gradient_inputs()->Add(wanted.inputs.begin(),
                                         wanted.inputs.end());
}

}  // namespace

std::vector<WireChunk> EncodeBackwardRequest(const BackwardMessage& message) {
  Request request;
  EncodeSpecAndLengths(message, request);
  EncodeGradients(message.wanted, request);
  EncodeCallInfo(message, request);

  ChunkWriter writer;
  writer.AddMessage(request);
  AddCallTensors(message, writer);
  const OutputGradients& cotangents = message.cotangents;
  if (cotangents.output.data != nullptr) {
    AddTensorField(Request::kDOutputFieldNumber, cotangents.output,
                   message.bshd, writer);
  }
  if (cotangents.lse.data != nullptr) {
    AddTensorField(Request::kDLseFieldNumber, cotangents.lse, /*bshd=*/false,
                   writer);
  }
  return writer.Finish();
}

}  // namespace attn
