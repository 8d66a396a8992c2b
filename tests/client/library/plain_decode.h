// A decode that knows what a RemoteSession must answer.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/library/remote_session.h"
#include "tests/client/library/plain_cache.h"

namespace attn {

// Two query heads on one KV head, of width 2, k of width 2 and v of width 3.
NewSession PlainSession(int layers);

// Steps a session of PlainSession() with tokens of its own and reckons beside
// it. Copies go on apart. Thread-compatible.
class PlainDecode {
 public:
  explicit PlainDecode(int layers) : caches_(static_cast<size_t>(layers)) {}

  // Makes a step of n new tokens for these layers, all in one message, and
  // holds the outputs against PlainSight(): INTERNAL says what differs. A step
  // that fails is the next one again.
  absl::Status Step(RemoteSession& session, const std::vector<int>& layers,
                    int64_t tokens = 1, bool bshd = false,
                    const CallOptions& call = {});
  // As the session was told to.
  void Rollback(int64_t position);

  int64_t length(int layer) const {
    return caches_[static_cast<size_t>(layer)].k.tokens();
  }

 private:
  std::vector<PlainCache> caches_;
  // Makes every number of a decode differ from those before it, within bounds
  // in which sums are exact.
  int64_t next_number_ = 1;
};

}  // namespace attn
