// What the server measures, as verbs. Prometheus is behind them, in one .cc.
#pragma once

#include <cstdint>
#include <string>

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

// Labels come from bounded sets only: `method` is an RPC name, `code` a gRPC
// status name; a variant that was not announced, or comes after too many
// others, becomes "other". Thread-safe; no verb waits for more than a handful
// of additions, or once for each variant for its series to be made.
class Metrics {
 public:
  virtual ~Metrics() = default;

  virtual void RequestStarted() = 0;
  // Once for each RequestStarted().
  virtual void RequestEnded(const std::string& method,
                            const std::string& variant, const std::string& code,
                            double seconds) = 0;
  virtual void PhaseEnded(Phase phase, double seconds) = 0;
  virtual void RequestRejected(RejectReason reason) = 0;
  // Requests that were started together, and their tokens.
  virtual void BatchFormed(int64_t requests, int64_t tokens) = 0;
  virtual void BytesReceived(int64_t bytes) = 0;
  virtual void BytesSent(int64_t bytes) = 0;
  // Copies of a tensor's payload in user space.
  virtual void PayloadCopies(int64_t copies) = 0;
  virtual void ComputeDone(double flops) = 0;
  // One sampled row: entropy / ln(visible keys), and the largest weight.
  virtual void RowObserved(const std::string& variant, double entropy_ratio,
                           double peak_weight) = 0;
  virtual void FullyMaskedRows(int64_t rows) = 0;
  // tensor: "q", "k", "v".
  virtual void NonfiniteInputs(const std::string& tensor, int64_t count) = 0;
  virtual void NonfiniteOutputs(int64_t count) = 0;
};

}  // namespace attn
