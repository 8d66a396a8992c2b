// Compares answers with what is expected, on a thread of its own, while the
// load goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/library/host_tensor.h"
#include "client/library/raw_call.h"

namespace attn {

struct Verification {
  int64_t verified = 0;
  int64_t mismatches = 0;
  // Samples that came while too many were waiting.
  int64_t skipped = 0;
  // What was wrong with the first mismatch.
  std::string first_mismatch{};

  void Merge(const Verification& other);
};

// Thread-safe.
class AnswerVerifier {
 public:
  // `expected` has one output for each payload.
  explicit AnswerVerifier(std::vector<HostTensor> expected);
  ~AnswerVerifier();
  AnswerVerifier(const AnswerVerifier&) = delete;
  AnswerVerifier& operator=(const AnswerVerifier&) = delete;

  // Queues the answer to a call of that payload. Never blocks.
  void Offer(size_t payload, const grpc::ByteBuffer& response);
  // Waits for the queue to empty and gives the counts since the last Finish().
  Verification Finish();

 private:
  struct Sample {
    size_t payload = 0;
    grpc::ByteBuffer response;
  };

  void Work();
  absl::Status Check(const Sample& sample) const;

  const std::vector<HostTensor> expected_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sample> samples_;
  Verification counts_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace attn
