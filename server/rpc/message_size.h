// The limit on messages, worded once.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

// RESOURCE_EXHAUSTED that names both numbers and the flag. `what`: "a request".
absl::Status CheckMessageSize(absl::string_view what, int64_t bytes,
                              int64_t limit);

// INVALID_ARGUMENT for bytes that are no protobuf of that type.
absl::Status MalformedMessage(absl::string_view type);

}  // namespace attn
