// The tokens that the sessions of a class are given.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/call_profile.h"
#include "client/load/payload.h"
#include "proto/codec/session_codec.h"

namespace attn {

// The same for each session: what a session has at a position is known, and so
// is the step that must be sent again. Immutable.
class SessionTokens {
 public:
  // `payloads` >= 1: different tokens that take turns as steps are made.
  // INVALID_ARGUMENT if a tensor has no legal size.
  static absl::StatusOr<SessionTokens> Draw(const CallProfile& profile,
                                            int payloads);

  // How many of the first tokens, those before `end`, the step at `position`
  // brings: what is there at a position is the same however they are divided.
  int64_t CountOfFirst(int64_t position, int64_t end) const;
  // The tensors, one of each layer, of the step that begins at `position`: of
  // CountOfFirst() tokens, or of the profile's q_length. They view this object.
  std::vector<StepTensors> First(int64_t position, int64_t end) const;
  std::vector<StepTensors> Decoded(int64_t position) const;

  // How many steps were made before the one at `position`.
  int64_t TurnOf(int64_t position) const;

 private:
  explicit SessionTokens(const CallProfile& profile) : profile_(profile) {}

  CallProfile profile_;
  // Those of a chunk, which is repeated.
  int64_t chunk_ = 1;
  std::vector<LoadPayload> first_;
  std::vector<LoadPayload> decoded_;
};

}  // namespace attn
