#include "client/io/replacement_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/io/file.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

// As many as Linux follows.
constexpr int kMostLinks = 40;

absl::Status IsThere(const std::string& name) {
  return absl::AlreadyExistsError(
      absl::StrCat(name, ": there is such a file; --force replaces it"));
}

// What new files of this process lack. It can only be read by setting it, so
// that it is read once: two threads at it could leave what the other one set.
// What another thread makes meanwhile gets too few rights, not too many.
mode_t FileMask() {
  static const mode_t mask = [] {
    const mode_t found = umask(S_IRWXG | S_IRWXO);
    umask(found);
    return found;
  }();
  return mask;
}

// The rights that a file of this process gets; the temporary one has fewer.
mode_t UsualMode(const std::string& target) {
  struct stat known {};
  constexpr mode_t kRights = 0777;
  if (stat(target.c_str(), &known) == 0) return known.st_mode & kRights;
  return 0666U & ~FileMask();
}

// Gives a file its rights and its bytes to the disk; 0 or an errno.
int Settle(const std::string& path, mode_t mode) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const bool settled = fchmod(descriptor, mode) == 0 && fsync(descriptor) == 0;
  const int error = settled ? 0 : errno;
  close(descriptor);
  return error;
}

// What `path` is or would be once links are followed. Of links in a circle, one
// of them.
std::string Followed(const std::string& path) {
  fs::path followed = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks; ++links) {
    const fs::path next = fs::read_symlink(followed, error);
    if (error) break;  // it is none
    followed = followed.parent_path() / next;
  }
  return followed.string();
}

}  // namespace

absl::StatusOr<ReplacementFile> ReplacementFile::Create(const std::string& path,
                                                        Existing existing) {
  ReplacementFile file;
  file.name_ = path;
  file.target_ = Followed(path);
  file.existing_ = existing;
  std::error_code error;
  const fs::file_status status = fs::status(file.target_, error);
  if (!fs::status_known(status)) return FileError(path, error.value());
  if (fs::is_directory(status)) return FileError(path, EISDIR);
  if (fs::exists(status)) {
    if (existing == Existing::kKeep) return IsThere(path);
    // A pipe or a device is not to be replaced by a file.
    if (!fs::is_regular_file(status)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": this is no regular file"));
    }
  }
  // Of the name that was given: who writes goes by that.
  const std::string ending = fs::path(path).extension().string();
  std::string name = (fs::path(file.target_).parent_path() /
                      absl::StrCat(".attn-XXXXXX", ending))
                         .string();
  const int descriptor =
      mkostemps(name.data(), static_cast<int>(ending.size()), O_CLOEXEC);
  if (descriptor < 0) return FileError(path, errno);
  close(descriptor);
  file.temporary_ = name;
  return file;
}

ReplacementFile::~ReplacementFile() { Remove(); }

ReplacementFile::ReplacementFile(ReplacementFile&& other) noexcept
    : name_(std::move(other.name_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, "")),
      existing_(other.existing_) {}

ReplacementFile& ReplacementFile::operator=(ReplacementFile&& other) noexcept {
  Remove();
  name_ = std::move(other.name_);
  target_ = std::move(other.target_);
  temporary_ = std::exchange(other.temporary_, "");
  existing_ = other.existing_;
  return *this;
}

void ReplacementFile::Remove() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status ReplacementFile::Blame(const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrReplaceAll(std::string(status.message()),
                                          {{temporary_, name_}}));
}

absl::Status ReplacementFile::Commit() {
  // Before it has its name, or a power failure could leave a part of it there.
  const int error = Settle(temporary_, UsualMode(target_));
  if (error != 0) return FileError(name_, error);
  if (existing_ == Existing::kKeep) {
    // A second name fails where rename() would replace.
    if (link(temporary_.c_str(), target_.c_str()) == 0) {
      Remove();
      temporary_.clear();
      return absl::OkStatus();
    }
    if (errno == EEXIST) return IsThere(name_);
    // Some file systems have no second names.
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    return FileError(name_, errno);
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace attn
