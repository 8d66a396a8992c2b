// A file whose bytes are summed up on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attn {

// Goes forward only. The sum is zlib's CRC-32: any change of up to three bits,
// or within 32 bits in a row, changes it. Errors name the path. All of it
// blocks on the disk. Move-only; thread-compatible.
class CheckedFile {
 public:
  // A new file that nobody else may read; the X of `pattern`, which ends in
  // XXXXXX, are replaced. FAILED_PRECONDITION if it cannot be made.
  static absl::StatusOr<CheckedFile> Create(std::string pattern);
  // One that is there. DATA_LOSS if it is not, or is no regular file;
  // UNAVAILABLE if the process or the system has no more descriptors or memory.
  static absl::StatusOr<CheckedFile> Open(std::string path);
  CheckedFile(CheckedFile&& other) noexcept;
  CheckedFile& operator=(CheckedFile&&) = delete;
  ~CheckedFile();

  const std::string& path() const { return path_; }
  // As it was opened.
  int64_t size() const { return size_; }

  static uint32_t SumOf(const void* bytes, size_t size);

  // FAILED_PRECONDITION if not all bytes could be written.
  absl::Status Put(const void* bytes, size_t size);
  // DATA_LOSS if there are not as many, or the disk fails.
  absl::Status Get(void* bytes, size_t size);
  // Of what was put, or got, since the last call.
  uint32_t TakeSum();
  // Waits until the disk has it. FAILED_PRECONDITION.
  absl::Status Sync();

 private:
  CheckedFile(std::string path, int fd);

  std::string path_;
  int fd_;
  int64_t size_ = 0;
  uint32_t sum_ = 0;
};

// Makes names in a directory last through a loss of power. FAILED_PRECONDITION.
absl::Status SyncFolder(const std::string& path);

}  // namespace attn
