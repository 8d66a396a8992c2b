#include "server/rpc/call_observer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "server/batching/refusal.h"

namespace attn {
namespace {

// Two histograms cost about 100 ns a row: a few microseconds a call.
constexpr size_t kMaxSampledRows = 32;

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

}  // namespace

void CallObserver::Ended(const CallRecord& record) {
  CountRejection(record.status);
  metrics_.BytesReceived(record.received_bytes);
  metrics_.BytesSent(record.sent_bytes);
  if (record.status.ok() && record.compute > absl::ZeroDuration()) {
    CountAttend(record);
  }
  metrics_.RequestEnded(record.method, record.variant,
                        absl::StatusCodeToString(record.status.code()),
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
  metrics_.NonfiniteInputs("q", record.nonfinite_q);
  metrics_.NonfiniteInputs("k", record.nonfinite_k);
  metrics_.NonfiniteInputs("v", record.nonfinite_v);
  metrics_.NonfiniteOutputs(record.nonfinite_outputs);
}

void CallObserver::RowsComputed(const std::string& variant,
                                absl::Span<const RowStatistics> rows) {
  if (options_.entropy_sample_rate <= 0 || rows.empty()) return;
  const auto wanted = static_cast<size_t>(std::ceil(
      options_.entropy_sample_rate * static_cast<double>(rows.size())));
  const size_t count = std::clamp<size_t>(wanted, 1, kMaxSampledRows);
  // Rounded up: `count` is a promise.
  const size_t stride = (rows.size() + count - 1) / count;
  for (size_t i = 0; i < rows.size(); i += stride) {
    const RowStatistics& row = rows[i];
    // The entropy of a row of one key is 0 whatever the head does.
    if (row.visible_keys < 2) continue;
    metrics_.RowObserved(
        variant, row.entropy / std::log(static_cast<double>(row.visible_keys)),
        row.peak_weight);
  }
}

}  // namespace attn
