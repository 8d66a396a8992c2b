// Whole files.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

// Errors begin with the path. INVALID_ARGUMENT for more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace attn
