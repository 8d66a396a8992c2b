// What the server measures, as verbs. Prometheus is behind them, in one .cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace attn {

// Phases of a request, in order.
enum class Phase { kReceive, kQueue, kCompute, kSend };
inline constexpr int kPhaseCount = 4;

// Why a request was turned away.
enum class RejectReason {
  kQueueFull,
  kDeadlineUnmeetable,
  kDeadlineExpired,
  kCancelled,
  kTooLarge,
  kMemory,
  kDraining,
  kInvalid,
  kTenantQuota,
  kUnauthenticated,
};
inline constexpr int kRejectReasonCount = 10;

// The tensors that bring numbers.
enum class InputTensor { kQ, kK, kV };
inline constexpr int kInputTensorCount = 3;

// Why a head tells nothing of its input.
enum class DeadReason { kCollapsed, kUninformative, kConstantLogits };
inline constexpr int kDeadReasonCount = 3;

// One row that was looked at: its entropy over ln(visible keys), and its
// largest weight.
struct ObservedRow {
  double entropy_ratio = 0;
  double peak_weight = 0;
  bool saturated = false;
};

// What was looked at of one head of a layer: sums over `rows`.
struct ObservedHead {
  int64_t rows = 0;
  int64_t saturated_rows = 0;
  double entropy_ratios = 0;
  double peak_weights = 0;
};

// Labels come from bounded sets only: a method that was not announced is not
// counted, a variant that was not announced, or comes after too many others,
// becomes "other", and so does a layer. Numbers of rows are finite.
// Thread-safe; no verb waits for a scrape, and only the first of a variant or a
// layer for another such.
class Metrics {
 public:
  virtual ~Metrics() = default;

  virtual void RequestStarted() = 0;
  // Once for each RequestStarted(). `code` is gRPC's number.
  virtual void RequestEnded(std::string_view method, std::string_view variant,
                            int code, double seconds) = 0;
  virtual void PhaseEnded(Phase phase, double seconds) = 0;
  virtual void RequestRejected(RejectReason reason) = 0;
  // Requests that were started together, their tokens, and how many could have
  // been started.
  virtual void BatchFormed(int64_t requests, int64_t tokens, int64_t ready) = 0;
  virtual void BytesReceived(int64_t bytes) = 0;
  virtual void BytesSent(int64_t bytes) = 0;
  // Copies of a tensor's payload in user space.
  virtual void PayloadCopies(int64_t copies) = 0;
  virtual void ComputeDone(double flops) = 0;
  // Sampled rows of one call.
  virtual void RowsObserved(std::string_view variant,
                            std::span<const ObservedRow> rows) = 0;
  // The same by head, of a call that takes tensors of a layer.
  virtual void HeadsObserved(std::string_view layer,
                             std::span<const ObservedHead> heads) = 0;
  virtual void DeadHeads(DeadReason reason, int64_t heads) = 0;
  virtual void FullyMaskedRows(int64_t rows) = 0;
  virtual void NonfiniteInputs(InputTensor tensor, int64_t count) = 0;
  virtual void NonfiniteOutputs(int64_t count) = 0;
};

}  // namespace attn
