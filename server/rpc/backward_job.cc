#include "server/rpc/backward_job.h"

#include <utility>

#include "server/rpc/byte_buffer.h"

namespace attn {

absl::StatusOr<WireCall*> BackwardJob::Read(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  auto call = DecodeBackwardRequest(stream, size, max_payload_bytes);
  if (!call.ok()) return call.status();
  call_ = *std::move(call);
  return &call_;
}

absl::StatusOr<CallCost> BackwardJob::Prepare(Engine& engine) {
  // The layers' tensors follow the request's.
  const size_t own = call_.args.inputs.size() - call_.layer_refs.size();
  for (size_t i = own; call_.wants_layers && i < call_.args.inputs.size();
       ++i) {
    if (!IsFloat(call_.args.inputs[i].dtype)) continue;
    call_.wanted.inputs.push_back(static_cast<uint32_t>(i));
  }
  auto plan = engine.PlanBackward(call_.spec, call_.args, call_.cotangents,
                                  call_.wanted);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  response_ = GradientBuilder(*plan_, call_);
  return CallCost{.plan = plan_,
                  .flops = plan_->flops,
                  .message_bytes = response_.message_bytes(),
                  .booked_bytes = response_.booked_bytes()};
}

void BackwardJob::Submit(Engine& engine, const Cancellation& cancellation,
                         EngineCallback done) {
  engine.SubmitBackward(plan_, call_.args, call_.cotangents, gradients_,
                        cancellation, std::move(done));
}

grpc::ByteBuffer BackwardJob::Encode(const CallReport& report) {
  v1::AttendBackwardResponse header;
  response_.FillHeader(report.scalar_gradients, header);
  FillReport(report, *header.mutable_report());
  return ToByteBuffer(EncodeBackwardResponse(header, response_.TakeTensors()));
}

}  // namespace attn
