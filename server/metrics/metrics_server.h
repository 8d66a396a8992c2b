// Serves the metrics to a scraper over HTTP.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace attn {

// What the sessions of a server are, and how they ended so far.
struct KvSessionValues {
  double sessions = 0;
  double bytes = 0;
  double capacity_bytes = 0;
  // By client, for idleness, evicted, damaged.
  std::array<double, 4> closed = {};
  // Not found, wrong epoch, step gap, step replayed, KV memory.
  std::array<double, 5> errors = {};
  // Of `sessions` those on disk, and their files.
  double spilled_sessions = 0;
  double spilled_bytes = 0;
  double spills = 0;
  double restores = 0;
  // Write, full, read, damaged.
  std::array<double, 4> spill_errors = {};
};

// Values read at each scrape, from any thread.
struct GaugeSources {
  std::function<double()> queue_depth;
  std::function<double()> queue_oldest_age_seconds;
  std::function<double()> inflight_bytes;
  std::function<double()> compute_busy_seconds;
  // Null: there are no sessions.
  std::function<KvSessionValues()> kv_sessions = nullptr;
};

// An RPC and the variants it may be counted under.
struct MethodLabels {
  std::string method;
  std::vector<std::string> variants;
};

// What is exported once, and the labels that exist.
struct MetricsInfo {
  std::string version;
  std::string isa;
  std::string onednn_version;
  std::string grpc_version;
  double cpu_quota_cores = 0;
  int compute_threads = 0;
  double queue_capacity = 0;
  double inflight_bytes_capacity = 0;
  // Every series exists from the start, at zero, but for those of variants and
  // layers: they come with the first call, as long as kMaxVariants and
  // kMaxLayerHeads allow.
  std::vector<MethodLabels> methods;
  // Variants whose rows are observed.
  std::vector<std::string> row_variants;
  // Of the announced variants those that exist from the start, too.
  std::vector<std::string> initial_variants;
  // By their numbers.
  std::vector<std::string> codes;
};

// Answers /metrics while it lives. The names, units and buckets are listed in
// README.md. Thread-safe.
class MetricsServer {
 public:
  virtual ~MetricsServer() = default;

  // Lives as long as this, also after StopListening().
  virtual Metrics& metrics() = 0;
  // The port that was bound, for "host:0".
  virtual int port() const = 0;
  // Closes the port. Takes about two seconds: the HTTP server's own pace.
  virtual void StopListening() = 0;
};

// `address` is "host:port"; empty: metrics are counted and not served. Null,
// with `error` set to one clear line, if it cannot be bound.
std::unique_ptr<MetricsServer> StartMetricsServer(const std::string& address,
                                                  const MetricsInfo& info,
                                                  const GaugeSources& sources,
                                                  std::string* error);

}  // namespace attn
