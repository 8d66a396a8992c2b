// One RemoteSession that decodes: a token with each step.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/remote_session.h"
#include "nlohmann/json.hpp"

namespace attn::cluster {

// The same tokens for the same seed. Thread-compatible.
class Decode {
 public:
  static absl::StatusOr<Decode> Open(const RemoteSessionOptions& options,
                                     uint64_t seed);

  // So many steps more, a pause before each. One that fails is counted and made
  // again; after kMostFailures of them in all the rest is left. The last output
  // is held against the oracle.
  void Step(int64_t steps, absl::Duration pause);

  // address, id, moves, tokens, wrong; digest, of the bits of all outputs in
  // their order; longest_ms, of a step; failures: code, message and ms of each.
  nlohmann::json Told() const;

 private:
  Decode(RemoteSession session, uint64_t seed)
      : session_(std::move(session)), seed_(seed) {}

  absl::Status StepOnce();

  static constexpr size_t kMostFailures = 20;

  RemoteSession session_;
  uint64_t seed_;
  int64_t made_ = 0;
  int64_t wrong_ = 0;
  uint64_t digest_ = 0;
  absl::Duration longest_{};
  std::vector<nlohmann::json> failures_;
  // What the session has been given, [tokens, heads, dim], and the last step.
  std::vector<float> keys_;
  std::vector<float> values_;
  HostTensor q_;
  HostTensor output_;
};

}  // namespace attn::cluster
