#include "server/rpc/attend_job.h"

#include <utility>

#include "server/rpc/byte_buffer.h"

namespace attn {

absl::StatusOr<WireCall*> AttendJob::Read(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  auto call = DecodeAttendRequest(stream, size, max_payload_bytes);
  if (!call.ok()) return call.status();
  call_ = *std::move(call);
  return &call_;
}

absl::StatusOr<CallCost> AttendJob::Prepare(Engine& engine) {
  auto plan = engine.Plan(call_.spec, call_.args, call_.wanted.Selection(),
                          call_.output_dtype, call_.kernel);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  response_ = ResponseBuilder(*plan_, call_);
  return CallCost{.plan = plan_,
                  .flops = plan_->flops,
                  .message_bytes = response_.message_bytes(),
                  .booked_bytes = response_.booked_bytes()};
}

std::optional<ForwardCall> AttendJob::AsForwardCall() {
  return ForwardCall{.plan = plan_,
                     .args = &call_.args,
                     .outputs = &outputs_,
                     .cancellation = nullptr,
                     .done = nullptr};
}

void AttendJob::Submit(Engine& engine, const Cancellation& cancellation,
                       EngineCallback done) {
  engine.Submit(plan_, call_.args, outputs_, cancellation, std::move(done));
}

v1::AttendResponse AttendJob::MakeHeader(const CallReport& report) {
  v1::AttendResponse header;
  response_.AddStatistics(report.row_statistics, header);
  FillReport(report, *header.mutable_report());
  return header;
}

grpc::ByteBuffer AttendJob::Encode(const CallReport& report) {
  const v1::AttendResponse header = MakeHeader(report);
  return ToByteBuffer(EncodeAttendResponse(header, response_.TakeTensors()));
}

}  // namespace attn
