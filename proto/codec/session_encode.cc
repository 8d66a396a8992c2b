#include <utility>

#include "proto/codec/call_encode.h"
#include "proto/codec/session_codec.h"
#include "proto/codec/stream_message.h"

namespace attn {
namespace {

v1::StepRequest EncodeHead(const StepMessage& message) {
  v1::StepRequest request;
  request.set_session_id(message.session_id);
  request.set_epoch(message.epoch);
  request.set_step(message.step);
  request.set_position(message.position);
  // Layer 0 alone goes without saying.
  if (message.layers.size() != 1 || message.layers[0].layer != 0) {
    for (const StepTensors& layer : message.layers) {
      request.add_layers(layer.layer);
    }
  }
  request.set_request_id(message.request_id);
  if (message.priority != v1::PRIORITY_NORMAL) {
    request.set_priority(message.priority);
  }
  return request;
}

}  // namespace

std::vector<WireChunk> EncodeStepRequest(const StepMessage& message) {
  ChunkWriter writer;
  writer.AddMessage(EncodeHead(message));
  for (const auto& [field, view] :
       {std::pair(v1::StepRequest::kQFieldNumber, &StepTensors::q),
        std::pair(v1::StepRequest::kKFieldNumber, &StepTensors::k),
        std::pair(v1::StepRequest::kVFieldNumber, &StepTensors::v)}) {
    for (const StepTensors& layer : message.layers) {
      AddTensorField(field, layer.*view, layer.bshd, writer);
    }
  }
  return writer.Finish();
}

std::vector<WireChunk> EncodeStepStreamRequest(const StepMessage& message) {
  return EncodeStreamPart(v1::StepStreamRequest(),
                          v1::StepStreamRequest::kStepFieldNumber,
                          EncodeStepRequest(message));
}

std::vector<WireChunk> EncodeStepResponse(const v1::StepResponse& header,
                                          std::vector<ResponseTensor> outputs) {
  for (ResponseTensor& output : outputs) {
    output.field = v1::StepResponse::kOutputFieldNumber;
  }
  return EncodeResponse(header, std::move(outputs));
}

std::vector<WireChunk> WrapStepResponse(std::vector<WireChunk> response) {
  return EncodeStreamPart(v1::StepStreamResponse(),
                          v1::StepStreamResponse::kResponseFieldNumber,
                          std::move(response));
}

}  // namespace attn
