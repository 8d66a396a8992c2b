#include "server/sessions/session_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kFileEnding[] = ".session";
constexpr char kTemporary[] = ".session.tmp-";

// "attnSes\n".
constexpr uint64_t kMagic = 0x0a7365536e747461;
constexpr uint32_t kVersion = 1;

// A value, as it lies in the file. Its own sum comes last, so that no damaged
// length is ever believed.
struct FilePrefix {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t record_bytes = 0;
  uint32_t record_sum = 0;
  uint32_t sum = 0;

  uint32_t Sum() const {
    return CheckedFile::SumOf(this, offsetof(FilePrefix, sum));
  }
};
static_assert(sizeof(FilePrefix) == 24);

constexpr int64_t kSumBytes = sizeof(uint32_t);

std::string PathOf(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

absl::Status Damaged(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": ", why));
}

absl::Status PutAll(CheckedFile& file, const SessionRecord& record,
                    const std::vector<KvSequence>& layers,
                    absl::string_view message) {
  const std::string text = EncodeSessionRecord(record);
  FilePrefix prefix;
  // A request, which is most of it, has less than 2 GiB.
  prefix.record_bytes = static_cast<uint32_t>(text.size());
  prefix.record_sum = CheckedFile::SumOf(text.data(), text.size());
  prefix.sum = prefix.Sum();
  absl::Status status = file.Put(&prefix, sizeof(prefix));
  if (status.ok()) status = file.Put(text.data(), text.size());
  file.TakeSum();
  for (const KvSequence& layer : layers) {
    if (!status.ok()) return status;
    status = layer.Save([&file](const std::byte* bytes, size_t size) {
      return file.Put(bytes, size);
    });
  }
  if (status.ok()) status = file.Put(message.data(), message.size());
  const uint32_t sum = file.TakeSum();
  if (status.ok()) status = file.Put(&sum, sizeof(sum));
  return status.ok() ? file.Sync() : status;
}

// The prefix, if all that it says can be.
absl::StatusOr<FilePrefix> GetPrefix(CheckedFile& file) {
  FilePrefix prefix;
  absl::Status status = file.Get(&prefix, sizeof(prefix));
  if (!status.ok()) return status;
  if (prefix.magic != kMagic) {
    return Damaged(file.path(), "it is no file of a session");
  }
  if (prefix.version != kVersion) {
    return Damaged(file.path(), absl::StrCat("it has version ", prefix.version,
                                             ", expected ", kVersion));
  }
  const int64_t rest = file.size() - int64_t{sizeof(prefix)};
  if (prefix.sum != prefix.Sum() || prefix.record_bytes > rest) {
    return Damaged(file.path(), "the checksum of its prefix does not fit");
  }
  file.TakeSum();
  return prefix;
}

absl::StatusOr<SessionRecord> GetRecord(CheckedFile& file) {
  auto prefix = GetPrefix(file);
  if (!prefix.ok()) return prefix.status();
  std::string text(static_cast<size_t>(prefix->record_bytes), '\0');
  absl::Status status = file.Get(text.data(), text.size());
  if (!status.ok()) return status;
  if (file.TakeSum() != prefix->record_sum) {
    return Damaged(file.path(), "the checksum of its record does not fit");
  }
  auto record = DecodeSessionRecord(text);
  if (!record.ok()) return Damaged(file.path(), record.status().message());
  return record;
}

}  // namespace

std::string SessionFileName(absl::string_view id) {
  return absl::StrCat(id, kFileEnding);
}

int64_t SessionFileBytes(const SessionRecord& record) {
  const auto head = static_cast<int64_t>(sizeof(FilePrefix) +
                                         EncodeSessionRecord(record).size());
  int64_t bytes = 0;
  if (__builtin_add_overflow(record.body_bytes(), head + kSumBytes, &bytes)) {
    return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

absl::Status WriteSessionFile(const std::string& directory,
                              const SessionRecord& record,
                              const std::vector<KvSequence>& layers,
                              absl::string_view message) {
  // The dot keeps it from being any session's file.
  auto file = CheckedFile::Create(
      PathOf(directory, absl::StrCat(".", record.id, kTemporary, "XXXXXX")));
  if (!file.ok()) return file.status();
  absl::Status status = PutAll(*file, record, layers, message);
  const std::string path = PathOf(directory, SessionFileName(record.id));
  if (status.ok() && std::rename(file->path().c_str(), path.c_str()) != 0) {
    const int error = errno;
    status = absl::FailedPreconditionError(
        absl::StrCat(path, ": cannot put the file there: ",
                     std::generic_category().message(error)));
  }
  if (!status.ok()) unlink(file->path().c_str());
  return status;
}

bool IsTemporarySessionFile(absl::string_view name) {
  return absl::StartsWith(name, ".") && absl::StrContains(name, kTemporary);
}

absl::StatusOr<SessionFile> SessionFile::Open(const std::string& directory,
                                              const std::string& id) {
  auto file = CheckedFile::Open(PathOf(directory, SessionFileName(id)));
  if (!file.ok()) return file.status();
  auto record = GetRecord(*file);
  if (!record.ok()) return record.status();
  if (record->id != id) {
    return Damaged(file->path(), "it is another session's");
  }
  if (SessionFileBytes(*record) != file->size()) {
    return Damaged(file->path(),
                   absl::StrCat("it has ", file->size(), " bytes, expected ",
                                SessionFileBytes(*record)));
  }
  return SessionFile(*std::move(file), *std::move(record));
}

absl::StatusOr<std::string> SessionFile::Read(std::vector<KvSequence>& layers) {
  absl::Status status;
  for (KvSequence& layer : layers) {
    status = layer.Load([this](std::byte* bytes, size_t size) {
      return file_.Get(bytes, size);
    });
    if (!status.ok()) return status;
  }
  std::string message(
      static_cast<size_t>(
          record_.last.value_or(RecordedAnswer()).message_bytes),
      '\0');
  status = file_.Get(message.data(), message.size());
  if (!status.ok()) return status;
  const uint32_t found = file_.TakeSum();
  uint32_t written = 0;
  status = file_.Get(&written, sizeof(written));
  if (!status.ok()) return status;
  if (found != written) {
    return Damaged(file_.path(),
                   "the checksum of its keys and values does not fit");
  }
  return message;
}

}  // namespace attn
