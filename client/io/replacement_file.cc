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

namespace attn {
namespace {

namespace fs = std::filesystem;

absl::Status Problem(const std::string& name, int error) {
  const std::string message =
      absl::StrCat(name, ": ", std::generic_category().message(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

absl::Status IsThere(const std::string& name) {
  return absl::AlreadyExistsError(
      absl::StrCat(name, ": there is such a file; --force replaces it"));
}

// The rights that a file of this process gets; the temporary one has fewer.
mode_t UsualMode(const std::string& target) {
  struct stat known {};
  constexpr mode_t kRights = 0777;
  if (stat(target.c_str(), &known) == 0) return known.st_mode & kRights;
  const mode_t mask = umask(0);
  umask(mask);
  return 0666U & ~mask;
}

// What `path` is or would be once links are followed.
std::string Followed(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
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
  if (fs::is_directory(status)) return Problem(path, EISDIR);
  if (fs::exists(status)) {
    if (existing == Existing::kKeep) return IsThere(path);
    // A pipe or a device is not to be replaced by a file.
    if (!fs::is_regular_file(status)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": this is no regular file"));
    }
  }
  const fs::path target(file.target_);
  const std::string ending = target.extension().string();
  std::string name =
      (target.parent_path() / absl::StrCat(".attn-XXXXXX", ending)).string();
  const int descriptor =
      mkostemps(name.data(), static_cast<int>(ending.size()), O_CLOEXEC);
  if (descriptor < 0) return Problem(path, errno);
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
  if (chmod(temporary_.c_str(), UsualMode(target_)) != 0) {
    return Problem(name_, errno);
  }
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
    return Problem(name_, errno);
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace attn
