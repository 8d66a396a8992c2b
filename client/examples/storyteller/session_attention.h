// The attention of a model, computed by a session on a server.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/examples/storyteller/model.h"
#include "client/library/remote_session.h"

namespace attn {

// What a session for that model is opened with: all its layers, rotary
// positions, and no token sees one behind it.
NewSession SessionFor(const LlamaSizes& sizes);

// One step of one layer of such a session: LlamaAttention's contract.
absl::StatusOr<std::vector<float>> AttendRemotely(const LlamaSizes& sizes,
                                                  const LlamaRows& rows,
                                                  RemoteSession& session);

}  // namespace attn
