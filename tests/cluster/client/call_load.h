// Callers that make calls without a pause, and what became of each call.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/library/attention_client.h"
#include "client/load/hdr_histogram.h"
#include "nlohmann/json.hpp"
#include "tests/cluster/client/problem.h"

namespace attn::cluster {

struct CallLoadOptions {
  int64_t calls = 1000;
  int callers = 8;
  // Between two calls of a caller.
  absl::Duration pause{};
  ClientOptions client{};
};

// Thread-safe.
class CallLoad {
 public:
  explicit CallLoad(const CallLoadOptions& options);

  // Returns when all calls were made and Enough() was called, with: calls, ok,
  // wrong, failed (by code), seconds, p50_ms, p99_ms, longest_ms, of a call
  // with all its attempts; messages, one of each code.
  absl::StatusOr<nlohmann::json> Run();
  void Enough() { enough_ = true; }

 private:
  void Call(const AttentionClient& client);
  void Count(const absl::Status& status, bool right, absl::Duration took);
  nlohmann::json Told(absl::Duration took) const;

  CallLoadOptions options_;
  std::vector<std::unique_ptr<Problem>> problems_;
  std::atomic<int64_t> begun_{0};
  std::atomic<bool> enough_{false};
  std::mutex mutex_;
  HdrHistogram latency_;
  int64_t ok_ = 0;
  int64_t wrong_ = 0;
  std::map<std::string, int64_t> failed_;
  std::map<std::string, std::string> messages_;
};

}  // namespace attn::cluster
