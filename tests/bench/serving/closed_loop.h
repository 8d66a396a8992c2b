// Callers that each wait for their answer before they send again, and how many
// answers they get.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/library/raw_call.h"
#include "client/load/hdr_histogram.h"

namespace attn {

struct LoopResult {
  double calls_per_second = 0;
  // Nanoseconds.
  HdrHistogram times;
};

struct LoopLoad {
  int connections = 1;
  // All together; they take turns on the connections.
  int callers = 1;
};

// Sends a request that was encoded once. Not thread-safe.
class ClosedLoop {
 public:
  ClosedLoop(const std::string& address, LoopLoad load,
             const grpc::ByteBuffer& request);
  // Waits for the calls in flight.
  ~ClosedLoop();
  ClosedLoop(const ClosedLoop&) = delete;
  ClosedLoop& operator=(const ClosedLoop&) = delete;

  // Returns at once; the callers go on until Stop().
  void Start();
  // Waits for the calls in flight. Throws if a call failed since Start().
  LoopResult Stop();

  // Start(), as many seconds, Stop().
  LoopResult Run(double seconds);

 private:
  struct Caller;

  void Send(Caller& caller);
  void Answered(Caller& caller, const absl::Status& status);
  void WaitForCallers();

  const grpc::ByteBuffer request_;
  std::vector<RawChannel> channels_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int active_ = 0;
  absl::Status failure_;
  std::atomic<bool> stop_{true};
  int64_t started_ = 0;
};

}  // namespace attn
