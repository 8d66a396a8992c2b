// A folder of its own for each test.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attn {

// Removed with all that is in it. Thread-compatible.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of a file in it.
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and gives its path. The name may have folders in it.
  std::string Write(const std::string& name, absl::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace attn
