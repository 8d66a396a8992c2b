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

// What a system call that failed with `error` means for `path`. NOT_FOUND:
// there is no such file or folder.
absl::Status FileError(const std::string& path, int error);

// Whether there is a file that may be written, or a folder for it. A disk may
// be full all the same.
absl::Status CheckWritable(const std::string& path);
// Whether there is a file that may be read, and that is no folder.
absl::Status CheckReadable(const std::string& path);

}  // namespace attn
