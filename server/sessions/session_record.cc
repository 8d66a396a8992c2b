#include "server/sessions/session_record.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);
// As many as a session may have.
constexpr uint64_t kMostLayers = 1024;
constexpr int64_t kMostMilliseconds = int64_t{1} << 53;

// Appends what a RecordReader takes.
class RecordWriter {
 public:
  void Number(uint64_t value) {
    char bytes[kNumberBytes];
    std::memcpy(bytes, &value, sizeof(bytes));
    text_.append(bytes, sizeof(bytes));
  }
  void Signed(int64_t value) { Number(static_cast<uint64_t>(value)); }
  void Text(absl::string_view value) {
    Number(value.size());
    text_.append(value.data(), value.size());
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// Once something is missing or out of its range, everything is.
class RecordReader {
 public:
  explicit RecordReader(absl::string_view text) : text_(text) {}

  uint64_t Number(uint64_t most = std::numeric_limits<uint64_t>::max()) {
    uint64_t value = 0;
    if (text_.size() < kNumberBytes) return Fail();
    std::memcpy(&value, text_.data(), kNumberBytes);
    text_.remove_prefix(kNumberBytes);
    return value <= most ? value : Fail();
  }
  // From 0 on.
  int64_t Signed(int64_t most = std::numeric_limits<int64_t>::max()) {
    return static_cast<int64_t>(Number(static_cast<uint64_t>(most)));
  }
  std::string Text() {
    const uint64_t size = Number(text_.size());
    if (size > text_.size()) Fail();
    if (!ok_) return "";
    std::string value(text_.substr(0, size));
    text_.remove_prefix(size);
    return value;
  }
  // Whether all of `count` entries of so many numbers may be there.
  bool Has(uint64_t count, size_t numbers) const {
    return count <= text_.size() / (numbers * kNumberBytes);
  }
  uint64_t Fail() {
    ok_ = false;
    text_ = absl::string_view();
    return 0;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && text_.empty(); }

 private:
  absl::string_view text_;
  bool ok_ = true;
};

void ReadAnswer(RecordReader& reader, SessionRecord& record) {
  if (reader.Number(1) == 0) return;
  RecordedAnswer& last = record.last.emplace();
  last.step = reader.Number();
  last.digest = reader.Number();
  last.kept = reader.Number(1) == 1;
  last.message_bytes = reader.Signed();
}

absl::Status ReadLayers(RecordReader& reader, SessionRecord& record) {
  record.block_bytes = reader.Signed();
  const uint64_t count = reader.Number(kMostLayers);
  if (!reader.Has(count, 3)) reader.Fail();
  if (!reader.ok()) return absl::OkStatus();
  for (uint64_t i = 0; i < count; ++i) {
    KvExtent& extent = record.layers.emplace_back();
    extent.length = reader.Signed();
    extent.released_begin = reader.Signed();
    extent.released_end = reader.Signed();
    absl::Status status = extent.Check();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// `bytes` more, or INT64_MAX.
int64_t AddBytes(int64_t sum, int64_t bytes) {
  if (__builtin_add_overflow(sum, bytes, &sum)) {
    return std::numeric_limits<int64_t>::max();
  }
  return sum;
}

}  // namespace

int64_t SessionRecord::memory_bytes() const {
  int64_t bytes = 0;
  for (const KvExtent& extent : layers) {
    bytes = AddBytes(bytes, extent.held_bytes(block_bytes));
  }
  return bytes;
}

int64_t SessionRecord::body_bytes() const {
  int64_t bytes = last.has_value() ? last->message_bytes : 0;
  for (const KvExtent& extent : layers) {
    bytes = AddBytes(bytes, extent.saved_bytes(block_bytes));
  }
  return bytes;
}

std::string EncodeSessionRecord(const SessionRecord& record) {
  RecordWriter writer;
  writer.Text(record.id);
  writer.Text(record.tenant);
  writer.Text(record.opening);
  writer.Number(record.epoch);
  writer.Number(record.next_step);
  writer.Number(record.rolled_back_to.has_value() ? 1 : 0);
  writer.Signed(record.rolled_back_to.value_or(0));
  writer.Signed(absl::ToUnixMillis(record.written));
  writer.Signed(absl::ToInt64Milliseconds(record.idle));
  writer.Signed(absl::ToInt64Milliseconds(record.age));
  writer.Number(record.last.has_value() ? 1 : 0);
  if (record.last.has_value()) {
    writer.Number(record.last->step);
    writer.Number(record.last->digest);
    writer.Number(record.last->kept ? 1 : 0);
    writer.Signed(record.last->message_bytes);
  }
  writer.Signed(record.block_bytes);
  writer.Number(record.layers.size());
  for (const KvExtent& extent : record.layers) {
    writer.Signed(extent.length);
    writer.Signed(extent.released_begin);
    writer.Signed(extent.released_end);
  }
  return writer.Take();
}

absl::StatusOr<SessionRecord> DecodeSessionRecord(absl::string_view text) {
  RecordReader reader(text);
  SessionRecord record;
  record.id = reader.Text();
  record.tenant = reader.Text();
  record.opening = reader.Text();
  record.epoch = reader.Number();
  record.next_step = reader.Number();
  const bool rolled_back = reader.Number(1) == 1;
  const int64_t position = reader.Signed();
  if (rolled_back) record.rolled_back_to = position;
  if (!rolled_back && position != 0) reader.Fail();
  record.written = absl::FromUnixMillis(reader.Signed(kMostMilliseconds));
  record.idle = absl::Milliseconds(reader.Signed(kMostMilliseconds));
  record.age = absl::Milliseconds(reader.Signed(kMostMilliseconds));
  ReadAnswer(reader, record);
  absl::Status status = ReadLayers(reader, record);
  if (!status.ok()) return status;
  if (!reader.AtEnd()) {
    return absl::InvalidArgumentError(
        "its head has other members than this version writes, or numbers out "
        "of their range");
  }
  return record;
}

}  // namespace attn
