#include "server/rpc/attend_job.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/describe_shape.h"
#include "server/rpc/message_size.h"
#include "server/rpc/request_id.h"

namespace attn {
namespace {

// The rows and keys that a call brings: its share of the token budget.
int64_t TokensOf(const AttentionShape& shape) {
  int64_t tokens = 0;
  const bool overflow = __builtin_mul_overflow(
      shape.batch, std::max(shape.q_length, shape.kv_length), &tokens);
  return overflow ? std::numeric_limits<int64_t>::max() / 2 : tokens;
}

absl::StatusOr<AttendCall> ReadRequest(grpc::ByteBuffer& request,
                                       int64_t max_payload_bytes) {
  const auto size = static_cast<int64_t>(request.Length());
  grpc::ProtoBufferReader reader(&request);
  if (!reader.status().ok()) {
    return absl::InternalError("the request's bytes cannot be read");
  }
  return DecodeAttendRequest(reader, size, max_payload_bytes);
}

}  // namespace

AttendJob::AttendJob(const AttendContext& context, absl::Time deadline,
                     Reply reply)
    : context_(context),
      reply_(std::move(reply)),
      arrived_(context.clock.Now()),
      cancellation_(context.clock, deadline) {
  record_.method = "Attend";
  context_.observer.Started();
}

void AttendJob::Run(grpc::ByteBuffer& request) {
  const absl::Status status = Receive(request);
  if (!status.ok()) {
    Fail(status);
    return;
  }
  scheduled_ = context_.clock.Now();
  record_.receive = scheduled_ - arrived_;
  context_.batcher.Schedule(shared_from_this());
}

void AttendJob::Cancel() {
  cancellation_.Cancel();
  context_.batcher.Withdraw(*this);
}

absl::Status AttendJob::Receive(grpc::ByteBuffer& request) {
  const auto size = static_cast<int64_t>(request.Length());
  record_.received_bytes = size;
  absl::Status fits =
      CheckMessageSize("a request", size, context_.max_message_bytes);
  if (!fits.ok()) return fits;
  auto permit = context_.admission.Admit(size, cancellation_.deadline());
  if (!permit.ok()) return permit.status();
  permit_ = *std::move(permit);
  absl::Status status = Decode(request);
  if (!status.ok()) return status;
  return Prepare();
}

absl::Status AttendJob::Decode(grpc::ByteBuffer& request) {
  auto call = ReadRequest(request, context_.max_message_bytes);
  // The payloads have been gathered; keeping the slices would double the
  // memory of a call while it waits and runs.
  request.Clear();
  if (!call.ok()) return call.status();
  call_ = *std::move(call);
  record_.request_id = call_.request_id;
  record_.variant = VariantName(call_.spec);
  record_.shape = DescribeShape(call_.args);
  record_.payload_copies = static_cast<int64_t>(call_.storage.size());
  return absl::OkStatus();
}

absl::Status AttendJob::Prepare() {
  auto plan =
      context_.engine.Plan(call_.spec, call_.args, call_.wanted.Selection(),
                           call_.output_dtype, call_.kernel);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  record_.kernel = plan_->kernel;
  record_.flops = plan_->flops;
  tokens_ = TokensOf(plan_->problem.shape);
  response_ = ResponseBuilder(*plan_, call_);
  absl::Status fits = CheckMessageSize("a response", response_.message_bytes(),
                                       context_.max_message_bytes);
  if (!fits.ok()) return fits;
  absl::Status booked = permit_.Grow(response_.booked_bytes());
  if (!booked.ok()) return booked;
  outputs_ = response_.Allocate();
  return absl::OkStatus();
}

void AttendJob::Start() {
  submitted_ = context_.clock.Now();
  context_.engine.Submit(plan_, call_.args, outputs_, cancellation_,
                         [self = shared_from_this()](const CallReport& report) {
                           self->EngineDone(report);
                         });
}

void AttendJob::Refuse(absl::Status status) {
  record_.queue = context_.clock.Now() - scheduled_;
  Fail(status);
}

void AttendJob::EngineDone(const CallReport& report) {
  context_.batcher.Finished(*this);
  NoteReport(report);
  if (!report.status.ok()) {
    Fail(report.status);
    return;
  }
  context_.observer.RowsComputed(record_.variant, report.row_statistics);
  grpc::ByteBuffer response = Encode(report);
  End(absl::OkStatus(), response);
}

void AttendJob::NoteReport(const CallReport& report) {
  record_.queue = submitted_ - scheduled_ + report.queued;
  record_.compute = report.computed;
  record_.send =
      context_.clock.Now() - scheduled_ - record_.queue - record_.compute;
  record_.fully_masked_rows = report.fully_masked_rows;
  record_.nonfinite_q = report.nonfinite_q;
  record_.nonfinite_k = report.nonfinite_k;
  record_.nonfinite_v = report.nonfinite_v;
  record_.nonfinite_outputs = report.nonfinite_outputs;
}

grpc::ByteBuffer AttendJob::Encode(const CallReport& report) {
  v1::AttendResponse header;
  response_.AddStatistics(report.row_statistics, header);
  if (record_.request_id.empty()) record_.request_id = MakeRequestId();
  record_.send =
      context_.clock.Now() - scheduled_ - record_.queue - record_.compute;
  FillReport(report, *header.mutable_report());
  return ToByteBuffer(EncodeAttendResponse(header, response_.TakeTensors()));
}

void AttendJob::FillReport(const CallReport& report,
                           v1::CallReport& message) const {
  message.set_kernel(plan_->kernel);
  message.set_effective_scale(plan_->effective_scale);
  message.set_pipeline(plan_->pipeline);
  v1::Timings& timings = *message.mutable_timings();
  timings.set_receive_ns(absl::ToInt64Nanoseconds(record_.receive));
  timings.set_queue_ns(absl::ToInt64Nanoseconds(record_.queue));
  timings.set_compute_ns(absl::ToInt64Nanoseconds(record_.compute));
  timings.set_send_ns(absl::ToInt64Nanoseconds(record_.send));
  message.set_fully_masked_rows(report.fully_masked_rows);
  message.set_nonfinite_q(report.nonfinite_q);
  message.set_nonfinite_k(report.nonfinite_k);
  message.set_nonfinite_v(report.nonfinite_v);
  message.set_nonfinite_outputs(report.nonfinite_outputs);
  message.set_request_id(record_.request_id);
}

void AttendJob::Fail(const absl::Status& status) {
  grpc::ByteBuffer nothing;
  End(status, nothing);
}

void AttendJob::End(const absl::Status& status, grpc::ByteBuffer& response) {
  if (record_.request_id.empty()) record_.request_id = MakeRequestId();
  record_.sent_bytes = static_cast<int64_t>(response.Length());
  record_.total = context_.clock.Now() - arrived_;
  record_.status = status;
  context_.observer.Ended(record_);
  reply_(status, response);
}

}  // namespace attn
