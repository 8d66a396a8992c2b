#include "server/sessions/session_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kLockName[] = ".lock";
constexpr mode_t kOwnersOnly = 0700;
constexpr mode_t kOwnersFile = 0600;
constexpr size_t kIdDigits = 32;

absl::Status CannotUse(const std::string& path, absl::string_view why,
                       int error) {
  return absl::FailedPreconditionError(
      absl::StrCat("--session-dir=", path, ": ", why, ": ",
                   std::generic_category().message(error)));
}

// The id of a file of ours; empty: it is none.
std::string IdOfFile(const std::string& name) {
  constexpr absl::string_view kHex = "0123456789abcdef";
  const std::string id = name.substr(0, kIdDigits);
  const bool ours =
      id.size() == kIdDigits &&
      id.find_first_not_of(kHex.data(), 0, kHex.size()) == std::string::npos &&
      name == SessionFileName(id);
  return ours ? id : "";
}

}  // namespace

SessionDirectory::SessionDirectory(SessionDirectoryOptions options, int lock)
    : options_(std::move(options)), lock_(lock) {}

// Closing the file lets go of the lock.
SessionDirectory::~SessionDirectory() { close(lock_); }

absl::StatusOr<std::unique_ptr<SessionDirectory>> SessionDirectory::Open(
    const SessionDirectoryOptions& options) {
  const std::string& path = options.path;
  if (mkdir(path.c_str(), kOwnersOnly) != 0 && errno != EEXIST) {
    return CannotUse(path, "cannot make it", errno);
  }
  const std::string lock_path = absl::StrCat(path, "/", kLockName);
  const int lock =
      open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kOwnersFile);
  if (lock < 0) return CannotUse(path, "cannot write to it", errno);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    close(lock);
    return CannotUse(path, "another server has it, or it cannot be locked",
                     error);
  }
  std::unique_ptr<SessionDirectory> directory(
      new SessionDirectory(options, lock));
  absl::Status status = directory->Scan();
  if (!status.ok()) return status;
  return directory;
}

absl::Status SessionDirectory::Scan() {
  std::error_code error;
  std::filesystem::directory_iterator entry(options_.path, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (IsTemporarySessionFile(name)) unlink(entry->path().c_str());
    std::string id = IdOfFile(name);
    if (!id.empty()) found_.push_back(std::move(id));
  }
  if (error) return CannotUse(options_.path, "cannot read it", error.value());
  std::sort(found_.begin(), found_.end());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SessionDirectory::Write(
    const SessionRecord& record, const std::vector<KvSequence>& layers,
    absl::string_view message) {
  const int64_t bytes = SessionFileBytes(record);
  if (!Book(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a session of ", bytes, " bytes does not fit: spilled ones have ",
        used_bytes(), " of --max-spill-bytes=", options_.max_bytes));
  }
  absl::Status status =
      WriteSessionFile(options_.path, record, layers, message);
  if (status.ok()) return bytes;
  Count(-bytes);
  return status;
}

void SessionDirectory::Remove(const std::string& id, int64_t bytes) {
  unlink(PathOfId(id).c_str());
  Count(-bytes);
}

void SessionDirectory::SetAside(const std::string& id, int64_t bytes) {
  const std::string path = PathOfId(id);
  std::rename(path.c_str(), absl::StrCat(path, ".damaged").c_str());
  Count(-bytes);
}

void SessionDirectory::Count(int64_t bytes) {
  const MutexLock lock(mutex_);
  used_bytes_ += bytes;
}

int64_t SessionDirectory::used_bytes() const {
  const MutexLock lock(mutex_);
  return used_bytes_;
}

bool SessionDirectory::Book(int64_t bytes) {
  const MutexLock lock(mutex_);
  if (options_.max_bytes > 0 && bytes > options_.max_bytes - used_bytes_) {
    return false;
  }
  used_bytes_ += bytes;
  return true;
}

std::string SessionDirectory::PathOfId(const std::string& id) const {
  return absl::StrCat(options_.path, "/", SessionFileName(id));
}

}  // namespace attn
