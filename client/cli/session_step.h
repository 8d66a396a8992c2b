// The new tokens of `attn session step`, and the flags that say which step it
// is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/attend_inputs.h"
#include "client/cli/call_info_flags.h"
#include "client/library/host_tensor.h"
#include "proto/codec/session_codec.h"

namespace attn {

// As given on the command line; what is absent is asked of the server.
// Thread-compatible.
struct StepFlags {
  std::optional<uint64_t> epoch;
  std::optional<uint64_t> step;
  std::optional<int64_t> position;
  std::vector<int> layers = {0};
  InputFlags input;
  // Tokens to draw in place of files; 0: none.
  int64_t random = 0;
  uint64_t seed = 0;
  std::string out;
  CallInfoFlags info;
};

// All but --session.
void AddStepFlags(CLI::App& command, StepFlags& flags);

// New rows of one layer.
struct TokenRows {
  HostTensor q;
  HostTensor k;
  HostTensor v;
};

// Whether what the flags do not say must be asked of the server.
bool NeedsSession(const StepFlags& flags);

// For each of the layers, from files: arrays q, k and v, or q.N, k.N and v.N
// for layer N where there are several.
absl::StatusOr<std::vector<TokenRows>> ReadTokenRows(const StepFlags& flags);

// The same drawn at random, as the session wants them. Equal for an equal seed
// and position, so that a step can be made again.
absl::StatusOr<std::vector<TokenRows>> DrawTokenRows(
    const StepFlags& flags, const v1::SessionInfo& session, int64_t position);

// Tokens that the first of the layers has: the flag, or else the session's.
absl::StatusOr<int64_t> PositionOf(const StepFlags& flags,
                                   const v1::SessionInfo& session);

// The step of session `id`; views the rows. `session` is looked at for what is
// absent.
StepMessage MakeStep(const StepFlags& flags, const std::string& id,
                     const v1::SessionInfo& session, int64_t position,
                     const std::vector<TokenRows>& rows);

}  // namespace attn
