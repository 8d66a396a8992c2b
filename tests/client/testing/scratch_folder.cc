#include "tests/client/testing/scratch_folder.h"

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace attn {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder()
    : path_((fs::temp_directory_path() / "attn-test-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) {
    std::perror("mkdtemp");
    std::abort();
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string ScratchFolder::Write(const std::string& name,
                                 absl::string_view bytes) const {
  const std::string path = File(name);
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace attn
