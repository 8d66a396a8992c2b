#include "server/sessions/checked_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "zlib.h"

namespace attn {
namespace {

// Linux moves at most 2 GiB at once.
constexpr size_t kMostMoved = size_t{1} << 30;

std::string Cannot(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::StrCat(path, ": cannot ", what, ": ",
                      std::generic_category().message(error));
}

uint32_t AddToSum(uint32_t sum, const void* bytes, size_t size) {
  return static_cast<uint32_t>(
      crc32_z(sum, static_cast<const Bytef*>(bytes), size));
}

}  // namespace

CheckedFile::CheckedFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

CheckedFile::CheckedFile(CheckedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      sum_(other.sum_) {}

CheckedFile::~CheckedFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<CheckedFile> CheckedFile::Create(std::string pattern) {
  // With mode 0600, whatever the umask.
  const int fd = mkostemp(pattern.data(), O_CLOEXEC);
  if (fd < 0) return absl::FailedPreconditionError(Cannot("make", pattern));
  return CheckedFile(std::move(pattern), fd);
}

absl::StatusOr<CheckedFile> CheckedFile::Open(std::string path) {
  // A pipe of that name must not hold whoever opens it.
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) {
    const bool passes = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    const std::string why = Cannot("open", path);
    return passes ? absl::UnavailableError(why) : absl::DataLossError(why);
  }
  CheckedFile file(std::move(path), fd);
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) {
    return absl::DataLossError(Cannot("read", file.path_));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::DataLossError(absl::StrCat(file.path_, ": no regular file"));
  }
  file.size_ = facts.st_size;
  return file;
}

uint32_t CheckedFile::SumOf(const void* bytes, size_t size) {
  return AddToSum(0, bytes, size);
}

absl::Status CheckedFile::Put(const void* bytes, size_t size) {
  const auto* from = static_cast<const std::byte*>(bytes);
  sum_ = AddToSum(sum_, from, size);
  while (size > 0) {
    const ssize_t count = write(fd_, from, std::min(size, kMostMoved));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::FailedPreconditionError(Cannot("write", path_));
    }
    from += count;
    size -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status CheckedFile::Get(void* bytes, size_t size) {
  auto* to = static_cast<std::byte*>(bytes);
  for (size_t left = size; left > 0;) {
    const ssize_t count = read(fd_, to, std::min(left, kMostMoved));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::DataLossError(Cannot("read", path_));
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ends too early"));
    }
    to += count;
    left -= static_cast<size_t>(count);
  }
  sum_ = AddToSum(sum_, bytes, size);
  return absl::OkStatus();
}

uint32_t CheckedFile::TakeSum() { return std::exchange(sum_, 0); }

absl::Status CheckedFile::Sync() {
  if (fsync(fd_) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(Cannot("sync", path_));
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  absl::Status status;
  if (fd < 0 || fsync(fd) != 0) {
    status = absl::FailedPreconditionError(Cannot("sync", path));
  }
  if (fd >= 0) close(fd);
  return status;
}

}  // namespace attn
