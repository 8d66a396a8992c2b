#include "server/rpc/call_observer.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "server/batching/refusal.h"
#include "server/rpc/head_health.h"
#include "server/rpc/row_sample.h"

namespace attn {
namespace {

RejectReason ReasonOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kQueueFull:
      return RejectReason::kQueueFull;
    case Refusal::kMemory:
      return RejectReason::kMemory;
    case Refusal::kTenantQuota:
      return RejectReason::kTenantQuota;
    case Refusal::kTooLarge:
      return RejectReason::kTooLarge;
    case Refusal::kDraining:
      return RejectReason::kDraining;
    case Refusal::kDeadlineUnmeetable:
      return RejectReason::kDeadlineUnmeetable;
    case Refusal::kDeadlineExpired:
      break;
  }
  return RejectReason::kDeadlineExpired;
}

std::optional<RejectReason> ReasonOf(const absl::Status& status) {
  if (const auto refusal = RefusalOf(status)) return ReasonOf(*refusal);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return RejectReason::kInvalid;
    case absl::StatusCode::kUnauthenticated:
      return RejectReason::kUnauthenticated;
    case absl::StatusCode::kResourceExhausted:
      return RejectReason::kTooLarge;
    case absl::StatusCode::kCancelled:
      return RejectReason::kCancelled;
    case absl::StatusCode::kDeadlineExceeded:
      return RejectReason::kDeadlineExpired;
    default:
      return std::nullopt;
  }
}

// As the metrics name the engine's verdicts.
constexpr std::pair<DeadHead, DeadReason> kDeadReasons[] = {
    {DeadHead::kCollapsed, DeadReason::kCollapsed},
    {DeadHead::kUninformative, DeadReason::kUninformative},
    {DeadHead::kConstantLogits, DeadReason::kConstantLogits},
};

}  // namespace

void CallObserver::Ended(const CallRecord& record) {
  CountRejection(record.status);
  metrics_.BytesReceived(record.received_bytes);
  metrics_.BytesSent(record.sent_bytes);
  if (record.status.ok() && record.compute > absl::ZeroDuration()) {
    CountAttend(record);
  }
  metrics_.RequestEnded(record.method, record.variant,
                        static_cast<int>(record.status.code()),
                        absl::ToDoubleSeconds(record.total));
  if (options_.log_requests) log_.Request(record);
}

void CallObserver::CountRejection(const absl::Status& status) {
  if (status.ok()) return;
  if (const auto reason = ReasonOf(status)) metrics_.RequestRejected(*reason);
}

void CallObserver::CountAttend(const CallRecord& record) {
  metrics_.PhaseEnded(Phase::kReceive, absl::ToDoubleSeconds(record.receive));
  metrics_.PhaseEnded(Phase::kQueue, absl::ToDoubleSeconds(record.queue));
  metrics_.PhaseEnded(Phase::kCompute, absl::ToDoubleSeconds(record.compute));
  metrics_.PhaseEnded(Phase::kSend, absl::ToDoubleSeconds(record.send));
  metrics_.PayloadCopies(record.payload_copies);
  metrics_.ComputeDone(record.flops);
  metrics_.FullyMaskedRows(record.fully_masked_rows);
  metrics_.NonfiniteInputs(InputTensor::kQ, record.nonfinite_q);
  metrics_.NonfiniteInputs(InputTensor::kK, record.nonfinite_k);
  metrics_.NonfiniteInputs(InputTensor::kV, record.nonfinite_v);
  metrics_.NonfiniteOutputs(record.nonfinite_outputs);
}

void CallObserver::RowsComputed(const ComputedRows& computed) {
  if (options_.entropy_sample_rate <= 0 || computed.rows.empty()) return;
  const RowSampling sampling{
      .rate = options_.entropy_sample_rate,
      .turn = turn_.fetch_add(1, std::memory_order_relaxed)};
  metrics_.RowsObserved(computed.variant, SampleRows(computed.rows, sampling));
  if (!computed.layer.empty()) {
    metrics_.HeadsObserved(
        computed.layer,
        SampleHeads(computed.rows, computed.heads, computed.length, sampling));
  }
  CountDead(computed);
}

void CallObserver::CountDead(const ComputedRows& computed) {
  const DeadHeadCounts dead =
      CountDeadHeads(computed.rows, computed.length, computed.has_statistics);
  for (const auto& [verdict, reason] : kDeadReasons) {
    const int64_t heads = dead[static_cast<size_t>(verdict)];
    if (heads > 0) metrics_.DeadHeads(reason, heads);
  }
}

}  // namespace attn
