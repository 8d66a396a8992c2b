// An AttentionSpec as people write it: protobuf JSON of the schema's message.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Errors begin with `name`, that of the file or the field. Values are checked
// later, by the engine.
absl::StatusOr<AttentionSpec> ParseSpecJson(const std::string& text,
                                            const std::string& name);

}  // namespace attn
