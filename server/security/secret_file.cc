#include "server/security/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/security/token_digest.h"

namespace attn {
namespace {

constexpr off_t kMaxSize = off_t{1} << 20;

absl::Status CannotRead(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("cannot be read: ", why));
}

absl::Status SystemError() {
  return CannotRead(std::generic_category().message(errno));
}

// Closes a file.
class File {
 public:
  // Does not wait for the writer of a pipe.
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool SameVersion(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// One byte more than it says shows that it grew.
absl::Status ReadWhole(int fd, off_t size, std::string& text) {
  text.resize(static_cast<size_t>(size) + 1);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(fd, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError();
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SecretFile> ReadSecretFile(const std::string& path) {
  const File file(path);
  struct stat before {};
  struct stat after {};
  if (file.fd() < 0 || fstat(file.fd(), &before) != 0) return SystemError();
  if (!S_ISREG(before.st_mode)) return CannotRead("it is no regular file");
  if (before.st_size > kMaxSize) return CannotRead("it is larger than 1 MiB");
  SecretFile secret;
  absl::Status status = ReadWhole(file.fd(), before.st_size, secret.text);
  if (status.ok() && fstat(file.fd(), &after) != 0) status = SystemError();
  if (status.ok() &&
      (!SameVersion(before, after) ||
       secret.text.size() != static_cast<size_t>(before.st_size))) {
    status = CannotRead("it changed meanwhile");
  }
  if (!status.ok()) {
    Wipe(secret.text);
    return status;
  }
  secret.open_to_all = (before.st_mode & S_IROTH) != 0;
  return secret;
}

}  // namespace attn
