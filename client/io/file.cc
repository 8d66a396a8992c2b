#include "client/io/file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFirstRead = 64 << 10;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

absl::Status FileError(const std::string& path, int error) {
  const std::string reason = std::generic_category().message(error);
  const std::string message = absl::StrCat(path, ": ", reason);
  return error == ENOENT ? absl::NotFoundError(message)
                         : absl::InvalidArgumentError(message);
}

// Grows as it reads, so that a pipe can be read and a size that lies does no
// harm.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return FileError(path, errno);
  std::string bytes;
  size_t size = 0;
  while (true) {
    bytes.resize(std::max(kFirstRead, size * 2));
    const size_t got =
        std::fread(bytes.data() + size, 1, bytes.size() - size, file.get());
    size += got;
    if (std::ferror(file.get()) != 0) return FileError(path, errno);
    if (size > static_cast<uint64_t>(max_bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": more than ", max_bytes, " bytes"));
    }
    if (size < bytes.size()) break;
  }
  bytes.resize(size);
  return bytes;
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return FileError(path, errno);
  const bool written =
      std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  if (std::fclose(file.release()) != 0 || !written) {
    return FileError(path, errno);
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return FileError(path, EISDIR);
  if (access(path.c_str(), W_OK) == 0) return absl::OkStatus();
  if (errno != ENOENT) return FileError(path, errno);
  const fs::path folder = fs::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return FileError(path, errno);
  }
  return absl::OkStatus();
}

absl::Status CheckReadable(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return FileError(path, EISDIR);
  if (access(path.c_str(), R_OK) != 0) return FileError(path, errno);
  return absl::OkStatus();
}

}  // namespace attn
