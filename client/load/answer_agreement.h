// Compares the answers that sessions got to the same step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "client/load/answer_verifier.h"
#include "proto/codec/session_codec.h"

namespace attn {

// Sessions that were given the same tokens get the same bits, as the server
// promises (server/README.md): the first answer at a position is what those of
// the other sessions are held against. Thread-safe.
class AnswerAgreement {
 public:
  // The answer to the step that begins at `position`.
  void Offer(int64_t position, const StepResult& result);
  // The counts since the last time. `verified`: answers that were compared.
  Verification Finish();

 private:
  std::mutex mutex_;
  // What the outputs of each position hold.
  std::unordered_map<int64_t, size_t> seen_;
  Verification counts_;
};

}  // namespace attn
