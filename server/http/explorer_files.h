// The files of explorer/, which the program carries inside itself.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

struct ExplorerFile {
  std::string name;
  std::string content_type;
  absl::string_view bytes;
  // The same in the gzip format, RFC 1952.
  std::string gzip;
  // Changes with the bytes, however they are encoded: `W/"9a3f..."`.
  std::string etag;
};

// In the order of their names. They live as long as the program. Thread-safe.
const std::vector<ExplorerFile>& ExplorerFiles();

// Null if there is none.
const ExplorerFile* FindExplorerFile(absl::string_view name);

}  // namespace attn
