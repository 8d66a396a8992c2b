// What the server measures, as verbs. Prometheus is behind it, in one .cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace attn {

// Phases of a request, in order.
enum class Phase { kReceive, kQueue, kCompute, kSend };

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
};

// Labels come from bounded sets only: `method` is an RPC name, `code` a gRPC
// status name; an unknown variant becomes "other". Thread-safe; never blocks
// for long: every verb is a few atomic additions.
class Metrics {
 public:
  virtual ~Metrics() = default;

  virtual void RequestStarted() = 0;
  virtual void RequestEnded(const std::string& method,
                            const std::string& variant,
                            const std::string& code, double seconds) = 0;
  virtual void PhaseEnded(Phase phase, double seconds) = 0;
  virtual void RequestRejected(RejectReason reason) = 0;
  virtual void BatchFormed(int64_t requests, int64_t tokens) = 0;
  virtual void BytesReceived(int64_t bytes) = 0;
  virtual void BytesSent(int64_t bytes) = 0;
  virtual void PayloadCopies(int64_t copies) = 0;
  virtual void ComputeDone(double flops) = 0;
  // One sampled row.
  virtual void RowObserved(const std::string& variant, double entropy_ratio,
                           double peak_weight) = 0;
  virtual void FullyMaskedRows(int64_t rows) = 0;
  // tensor: "q", "k", "v".
  virtual void NonfiniteInputs(const std::string& tensor, int64_t count) = 0;
  virtual void NonfiniteOutputs(int64_t count) = 0;
};

// Values read at each scrape.
struct GaugeSources {
  std::function<double()> queue_depth;
  std::function<double()> queue_oldest_age_seconds;
  std::function<double()> inflight_bytes;
  std::function<double()> compute_busy_seconds;
};

// Constants exported once.
struct MetricsInfo {
  std::string version;
  std::string isa;
  std::string onednn_version;
  std::string grpc_version;
  double cpu_quota_cores = 0;
  int compute_threads = 0;
  double queue_capacity = 0;
  double inflight_bytes_capacity = 0;
};

// Serves /metrics while it lives. Names, units and buckets are listed in
// server/metrics/README.md.
class MetricsServer {
 public:
  virtual ~MetricsServer() = default;
  virtual Metrics& metrics() = 0;
  // The port that was bound, for "host:0".
  virtual int port() const = 0;
};

// Fails (null, with `error` set to one clear line) if the address cannot be
// bound. `address` is "host:port".
std::unique_ptr<MetricsServer> StartMetricsServer(const std::string& address,
                                                  const MetricsInfo& info,
                                                  const GaugeSources& gauges,
                                                  std::string* error);

}  // namespace attn
