// A session of a FakeSessionServer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/v1/session.pb.h"
#include "tests/client/library/plain_cache.h"

namespace attn {

// An error as a server gives it, with ErrorInfo.
absl::Status FakeError(absl::StatusCode code, const std::string& reason);

struct SeenStep {
  std::string session_id;
  uint64_t epoch = 0;
  uint64_t step = 0;
  int64_t position = 0;
  int64_t tokens = 0;
  std::vector<int> layers;
  bool zero_query = false;
  // Answered from memory.
  bool again = false;
};

// Keeps the contract of session.proto with an attention of its own, whose
// answer depends on every token that was appended, on their order and on the
// query, and is exact for small whole numbers: see PlainSight().
// Thread-compatible.
class FakeSession {
 public:
  explicit FakeSession(int layers) : layers_(static_cast<size_t>(layers)) {}

  absl::Status Step(const v1::StepRequest& request, SeenStep& seen,
                    v1::StepResponse& response);
  absl::StatusOr<FakeSession> Fork(const v1::ForkRequest& request) const;
  absl::Status Rollback(const v1::RollbackRequest& request,
                        v1::RollbackResponse& response);
  void Describe(const std::string& id, v1::SessionInfo& info) const;
  uint64_t epoch() const { return epoch_; }

 private:
  absl::Status CheckEpoch(uint64_t epoch) const;
  absl::Status Append(const v1::StepRequest& request, SeenStep& step,
                      v1::StepResponse& response);

  std::vector<PlainCache> layers_;
  uint64_t epoch_ = 1;
  uint64_t next_step_ = 0;
  std::string last_request_;
  v1::StepResponse last_response_;
  // Unless a step was made since.
  std::optional<int64_t> rolled_back_to_;
};

}  // namespace attn
