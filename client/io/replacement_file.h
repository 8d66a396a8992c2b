// A file that appears whole or not at all.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace attn {

// Something to write beside the file that is meant, which it replaces in one
// step. Without Commit() it goes away; a process that is killed leaves it, as
// .attn-*. Move-only; thread-compatible.
class ReplacementFile {
 public:
  enum class Existing { kReplace, kKeep };

  // Makes an empty file beside `path`, or beside what that links to, with the
  // ending of the name `path`. INVALID_ARGUMENT or NOT_FOUND if that cannot be;
  // ALREADY_EXISTS for kKeep where there is a file. Errors begin with `path`.
  static absl::StatusOr<ReplacementFile> Create(const std::string& path,
                                                Existing existing);

  ~ReplacementFile();
  ReplacementFile(ReplacementFile&& other) noexcept;
  ReplacementFile& operator=(ReplacementFile&& other) noexcept;

  // What to write to.
  const std::string& path() const { return temporary_; }
  // An error of who wrote it, which names that file, made to name the one that
  // is meant.
  absl::Status Blame(const absl::Status& status) const;
  // Puts it in its place. ALREADY_EXISTS for kKeep where a file has come since.
  absl::Status Commit();

 private:
  ReplacementFile() = default;
  void Remove();

  // As it was named, and as it is once links are followed.
  std::string name_;
  std::string target_;
  // "": none, or committed.
  std::string temporary_;
  Existing existing_ = Existing::kKeep;
};

}  // namespace attn
