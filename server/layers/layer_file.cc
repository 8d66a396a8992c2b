#include "server/layers/layer_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/safetensors/safetensors_header.h"

namespace attn {
namespace {

constexpr char kEnding[] = ".safetensors";
constexpr char kTemporaryMark[] = ".safetensors.tmp-";
constexpr char kVersionKey[] = "attn.version";
// 256 entries of some 350 bytes, and room for others' metadata.
constexpr int64_t kMaxHeaderBytes = int64_t{1} << 20;
// Linux moves at most 2 GiB at once.
constexpr size_t kMostAtOnce = size_t{1} << 30;
constexpr mode_t kFileMode = 0644;

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": cannot ", what, ": ", std::generic_category().message(error)));
}

// An open file. Move-only; thread-compatible.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

bool WriteAll(int fd, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  while (size > 0) {
    const ssize_t count = write(fd, bytes, std::min(size, kMostAtOnce));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t size) {
  auto* bytes = static_cast<std::byte*>(data);
  while (size > 0) {
    const ssize_t count = read(fd, bytes, std::min(size, kMostAtOnce));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;  // the file became shorter
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

absl::Status WriteContents(int fd, const Layer& layer,
                           const std::string& path) {
  SafetensorsHeader header;
  header.metadata[kVersionKey] = absl::StrCat(layer.version);
  for (const StoredTensor& tensor : layer.tensors) {
    header.entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const std::string text = WriteSafetensorsHeader(header);
  bool written = WriteAll(fd, text.data(), text.size());
  for (const SafetensorsEntry& entry : header.entries) {
    const AlignedBuffer& data = layer.Find(entry.name)->data;
    written = written && WriteAll(fd, data.data(), data.size());
  }
  if (!written || fchmod(fd, kFileMode) != 0) return Failed("write", path);
  if (fsync(fd) != 0) return Failed("sync", path);
  return absl::OkStatus();
}

absl::Status Invalid(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

// The header, with the file at the first byte of the data.
absl::StatusOr<SafetensorsHeader> ReadHeader(int fd, int64_t max_bytes,
                                             const std::string& path) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) return Failed("read", path);
  if (!S_ISREG(facts.st_mode)) return Invalid(path, "not a regular file");
  std::string prefix(static_cast<size_t>(kSafetensorsPrefixBytes), '\0');
  if (facts.st_size < kSafetensorsPrefixBytes) prefix.clear();
  if (!ReadAll(fd, prefix.data(), prefix.size())) return Failed("read", path);
  const auto length =
      SafetensorsHeaderLength(prefix, facts.st_size, kMaxHeaderBytes);
  if (!length.ok()) return Invalid(path, length.status().message());
  const int64_t data = facts.st_size - kSafetensorsPrefixBytes - *length;
  if (data > max_bytes) {
    return Invalid(
        path, absl::StrCat(data, " bytes of tensors exceed the ", max_bytes,
                           " that --max-layer-bytes leaves"));
  }
  std::string text(static_cast<size_t>(*length), '\0');
  if (!ReadAll(fd, text.data(), text.size())) return Failed("read", path);
  auto header = ParseSafetensorsHeader(text, data);
  if (!header.ok()) return Invalid(path, header.status().message());
  return header;
}

uint64_t VersionOf(const SafetensorsHeader& header) {
  uint64_t version = 0;
  const auto found = header.metadata.find(kVersionKey);
  if (found == header.metadata.end() ||
      !absl::SimpleAtoi(found->second, &version)) {
    return 0;
  }
  return version;
}

}  // namespace

std::string LayerFileName(const std::string& layer) {
  return absl::StrCat(layer, kEnding);
}

bool IsTemporaryLayerFile(const std::string& file) {
  return absl::StartsWith(file, ".") && absl::StrContains(file, kTemporaryMark);
}

absl::Status WriteLayerFile(const std::string& directory, const Layer& layer) {
  const std::string path =
      absl::StrCat(directory, "/", LayerFileName(layer.name));
  // The dot keeps it from being any layer's file.
  std::string temporary =
      absl::StrCat(directory, "/.", layer.name, kTemporaryMark, "XXXXXX");
  {
    const Descriptor fd(mkostemp(temporary.data(), O_CLOEXEC));
    if (fd.get() < 0) return Failed("make", temporary);
    absl::Status status = WriteContents(fd.get(), layer, temporary);
    if (!status.ok()) {
      unlink(temporary.c_str());
      return status;
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = Failed("replace", path);
    unlink(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Layer> ReadLayerFile(const std::string& directory,
                                    const std::string& layer,
                                    int64_t max_bytes) {
  const std::string path = absl::StrCat(directory, "/", LayerFileName(layer));
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return Failed("open", path);
  const auto header = ReadHeader(fd.get(), max_bytes, path);
  if (!header.ok()) return header.status();
  Layer result;
  result.name = layer;
  result.version = VersionOf(*header);
  for (const SafetensorsEntry& entry : header->entries) {
    StoredTensor& tensor = result.tensors.emplace_back();
    tensor.name = entry.name;
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    tensor.data = AlignedBuffer(static_cast<size_t>(entry.byte_count()));
    result.bytes += entry.byte_count();
    if (!ReadAll(fd.get(), tensor.data.data(), tensor.data.size())) {
      return Failed("read", path);
    }
  }
  absl::Status status = CheckLayerTensors(result.tensors);
  if (!status.ok()) return Invalid(path, status.message());
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return a.name < b.name;
            });
  return result;
}

absl::Status RemoveLayerFile(const std::string& directory,
                             const std::string& file) {
  const std::string path = absl::StrCat(directory, "/", file);
  if (unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Failed("remove", path);
  }
  return absl::OkStatus();
}

absl::Status SyncLayerDirectory(const std::string& directory) {
  const Descriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0 || fsync(fd.get()) != 0) return Failed("sync", directory);
  return absl::OkStatus();
}

}  // namespace attn
