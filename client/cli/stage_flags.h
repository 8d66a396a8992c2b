// Plain flags for the members of a spec that people reach for most. Others come
// by --spec FILE.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/io/tensor_file.h"
#include "client/library/host_tensor.h"
#include "engine/core/attention_spec.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// What was given, in the order of the table of flags: row and text.
// Thread-compatible.
struct StageFlags {
  std::vector<std::vector<std::string>> texts;
};

void AddStageFlags(CLI::App& command, StageFlags& flags);

// Changes `spec` as the flags say; the tensors of files that they name go to
// `inputs`. INVALID_ARGUMENT names the flag.
absl::Status ApplyStageFlags(const StageFlags& flags,
                             const ReadOptions& options, AttentionSpec& spec,
                             std::vector<HostTensor>& inputs);

}  // namespace attn
