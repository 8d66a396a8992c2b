#include "server/rpc/call_job.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "grpcpp/support/proto_buffer_reader.h"
#include "server/rpc/call_warnings.h"
#include "server/rpc/describe_shape.h"
#include "server/rpc/layer_lookup.h"
#include "server/rpc/memory_guard.h"
#include "server/rpc/message_size.h"
#include "server/rpc/request_id.h"
#include "server/rpc/variant_name.h"

namespace attn {
namespace {

// The rows and keys that a call brings: its share of the token budget.
int64_t TokensOf(const Problem& problem) {
  if (problem.ragged) return std::max(problem.q_rows, problem.kv_rows);
  const AttentionShape& shape = problem.shape;
  int64_t tokens = 0;
  const bool overflow = __builtin_mul_overflow(
      shape.batch, std::max(shape.q_length, shape.kv_length), &tokens);
  return overflow ? std::numeric_limits<int64_t>::max() / 2 : tokens;
}

Priority ToPriority(v1::Priority priority) {
  switch (priority) {
    case v1::PRIORITY_HIGH:
      return Priority::kHigh;
    case v1::PRIORITY_LOW:
      return Priority::kLow;
    default:
      return Priority::kNormal;
  }
}

ComputedRows DescribeRows(const Plan& plan, const WireCall& call,
                          absl::Span<const RowStatistics> rows) {
  ComputedRows computed;
  if (!call.layer_refs.empty()) computed.layer = call.layer_refs.front().layer;
  computed.rows = rows;
  computed.heads = plan.problem.shape.q_heads;
  computed.length = plan.problem.shape.q_length;
  computed.has_statistics = plan.problem.outputs.statistics;
  return computed;
}

}  // namespace

CallJob::CallJob(const CallContext& context, const char* method, Caller caller,
                 Reply reply)
    : context_(context),
      caller_(std::move(caller)),
      reply_(std::move(reply)),
      arrived_(context.clock.Now()),
      cancellation_(context.clock, caller_.deadline) {
  record_.method = method;
  record_.trace_id = caller_.trace_id;
  record_.tenant = caller_.tenant.name;
  context_.observer.Started();
}

void CallJob::Run(grpc::ByteBuffer& request) {
  if (Open(request)) Complete();
}

bool CallJob::Open(grpc::ByteBuffer& request) {
  const absl::Status status = RefusingMemory([&] { return Receive(request); });
  if (!status.ok()) {
    Fail(status);
    return false;
  }
  if (answer_.has_value()) End(status, *answer_);
  return !answer_.has_value();
}

void CallJob::Complete() {
  absl::Status values = Engine::CheckValues(*plan_, message_->args);
  if (!values.ok()) {
    Fail(NameFields(values));
    return;
  }
  scheduled_ = context_.clock.Now();
  record_.receive = scheduled_ - arrived_;
  context_.batcher.Schedule(shared_from_this());
}

void CallJob::Cancel() {
  cancellation_.Cancel();
  context_.batcher.Withdraw(*this);
}

absl::Status CallJob::Receive(grpc::ByteBuffer& request) {
  const auto size = static_cast<int64_t>(request.Length());
  record_.received_bytes = size;
  if (!caller_.status.ok()) return caller_.status;
  absl::Status fits = CheckMessageSize(
      "a request", size, context_.max_message_bytes, LargerCallsHint());
  if (!fits.ok()) return fits;
  auto permit =
      context_.admission.Admit(size, cancellation_.deadline(), caller_.tenant);
  if (!permit.ok()) return permit.status();
  permit_ = *std::move(permit);
  absl::Status status = Decode(request);
  if (!status.ok()) return status;
  return Book();
}

absl::Status CallJob::Decode(grpc::ByteBuffer& request) {
  const auto size = static_cast<int64_t>(request.Length());
  absl::StatusOr<WireCall*> call = nullptr;
  {
    grpc::ProtoBufferReader reader(&request);
    if (!reader.status().ok()) {
      return absl::InternalError("the request's bytes cannot be read");
    }
    call = Read(reader, size, context_.max_message_bytes);
  }
  // The payloads have been gathered; keeping the slices would double the
  // memory of a call while it waits and runs.
  request.Clear();
  if (!call.ok()) return call.status();
  WireCall& message = **call;
  message_ = &message;
  record_.request_id = message.request_id;
  priority_ = ToPriority(message.priority);
  record_.payload_copies = static_cast<int64_t>(message.storage.size());
  return NameFields(AppendLayers(context_.layers, message));
}

absl::Status CallJob::Book() {
  auto cost = Prepare(context_.engine);
  if (!cost.ok()) return NameFields(cost.status());
  if (answer_.has_value()) return absl::OkStatus();
  plan_ = std::move(cost->plan);
  record_.kernel = plan_->kernel;
  record_.flops = cost->flops;
  tokens_ = cost->tokens > 0 ? cost->tokens : TokensOf(plan_->problem);
  absl::Status fits =
      CheckMessageSize("a response", cost->message_bytes,
                       context_.max_message_bytes, LargerCallsHint());
  if (!fits.ok()) return fits;
  absl::Status booked = permit_.Grow(cost->booked_bytes);
  if (!booked.ok()) return booked;
  absl::Status claimed = Claim();
  if (!claimed.ok()) return NameFields(claimed);
  Allocate();
  immediate_ = Engine::IsSmall(*plan_) && AsForwardCall().has_value();
  return absl::OkStatus();
}

absl::Status CallJob::NameFields(const absl::Status& status) const {
  return NameLayers(status, *message_);
}

void CallJob::LimitTime(absl::Duration limit) {
  cancellation_.Shorten(arrived_ + limit);
}

void CallJob::Start() {
  submitted_ = context_.clock.Now();
  if (immediate_) {
    // No worker could have it done before it were awake.
    context_.engine.RunHere(*TakeForwardCall());
  } else {
    Submit(context_.engine, cancellation_, WhenDone());
  }
}

void CallJob::StartTogether(const BatchItems& items, const BatchCount& batch) {
  std::vector<ForwardCall> calls;
  calls.reserve(items.size());
  Engine* engine = nullptr;
  for (const auto& item : items) {
    auto& job = static_cast<CallJob&>(*item);
    engine = &job.context_.engine;
    job.batch_ = batch;
    job.submitted_ = job.context_.clock.Now();
    std::optional<ForwardCall> call = job.TakeForwardCall();
    if (call.has_value()) {
      calls.push_back(*std::move(call));
    } else {
      job.Submit(*engine, job.cancellation_, job.WhenDone());
    }
  }
  if (!calls.empty()) engine->SubmitTogether(std::move(calls));
}

CallJob::EngineCallback CallJob::WhenDone() {
  return [self = shared_from_this()](CallReport report) {
    self->EngineDone(std::move(report));
  };
}

std::optional<ForwardCall> CallJob::TakeForwardCall() {
  std::optional<ForwardCall> call = AsForwardCall();
  if (call.has_value()) {
    call->cancellation = &cancellation_;
    call->done = WhenDone();
  }
  return call;
}

void CallJob::Refuse(absl::Status status) {
  record_.queue = context_.clock.Now() - scheduled_;
  Fail(status);
}

void CallJob::EngineDone(CallReport report) {
  NoteReport(report);
  grpc::ByteBuffer response;
  absl::Status status = RefusingMemory([&] {
    if (report.status.ok()) response = Encode(report);
    return report.status;
  });
  // The engine's is no refusal yet.
  if (absl::IsResourceExhausted(status)) status = RefuseMemory();
  if (status.ok()) {
    rows_ = std::move(report.row_statistics);
    End(status, response);
  } else {
    Fail(status);
  }
  // Others start, or hear that they are late, once this reply is on its way.
  context_.batcher.Finished(*this);
}

void CallJob::NoteReport(const CallReport& report) {
  record_.queue = submitted_ - scheduled_ + report.queued;
  record_.compute = report.computed;
  record_.send = SinceCompute();
  record_.fully_masked_rows = report.fully_masked_rows;
  record_.nonfinite_q = report.nonfinite_q;
  record_.nonfinite_k = report.nonfinite_k;
  record_.nonfinite_v = report.nonfinite_v;
  record_.nonfinite_outputs = report.nonfinite_outputs;
}

absl::Duration CallJob::SinceCompute() const {
  return context_.clock.Now() - scheduled_ - record_.queue - record_.compute;
}

void CallJob::FillReport(const CallReport& report, v1::CallReport& message) {
  if (record_.request_id.empty()) record_.request_id = MakeRequestId();
  record_.send = SinceCompute();
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
  message.set_batch_calls(immediate_ ? 0 : batch_.requests);
  message.set_ready_calls(immediate_ ? 0 : batch_.ready);
  for (v1::Warning& warning : CallWarnings(*plan_, report)) {
    *message.add_warnings() = std::move(warning);
  }
}

void CallJob::Fail(const absl::Status& status) {
  grpc::ByteBuffer nothing;
  End(status, nothing);
}

void CallJob::End(const absl::Status& status, grpc::ByteBuffer& response) {
  if (record_.request_id.empty()) record_.request_id = MakeRequestId();
  record_.sent_bytes += static_cast<int64_t>(response.Length());
  record_.total = context_.clock.Now() - arrived_;
  record_.status = status;
  Settle(status);
  replied_.store(true, std::memory_order_release);
  reply_(status, response);
}

void CallJob::NoteLost(const absl::Status& status) {
  record_.status = status;
  record_.sent_bytes = 0;
}

void CallJob::Report() {
  if (!replied_.load(std::memory_order_acquire)) return;
  if (message_ != nullptr) {
    record_.variant = VariantName(message_->spec);
    record_.shape = DescribeShape(message_->args);
  }
  if (!rows_.empty()) {
    ComputedRows computed = DescribeRows(*plan_, *message_, rows_);
    computed.variant = record_.variant;
    context_.observer.RowsComputed(computed);
  }
  context_.observer.Ended(record_);
}

}  // namespace attn
