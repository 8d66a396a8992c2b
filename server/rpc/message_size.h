// The limit on messages, worded once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

// RESOURCE_EXHAUSTED that names both numbers and the flag. `what`: "a request";
// `hint`, which ends the message, may name another way.
absl::Status CheckMessageSize(absl::string_view what, int64_t bytes,
                              int64_t limit, absl::string_view hint = "");

// RESOURCE_EXHAUSTED for a request without payloads of more than
// kMaxMetadataBytes.
absl::Status CheckMetadataSize(size_t bytes);

// INVALID_ARGUMENT for bytes that are no protobuf of that type.
absl::Status MalformedMessage(absl::string_view type);

}  // namespace attn
