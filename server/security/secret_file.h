// A small file with something secret in it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace attn {

struct SecretFile {
  std::string text;
  // Everybody on the machine may read it.
  bool open_to_all = false;
};

// Reads a regular file whole. FAILED_PRECONDITION, in the system's words and
// without the path: it cannot be read, is no regular file, is larger than
// 1 MiB, or changed while it was read.
absl::StatusOr<SecretFile> ReadSecretFile(const std::string& path);

}  // namespace attn
