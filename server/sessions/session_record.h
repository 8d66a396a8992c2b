// What the file of a session says of it in front of its keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/cache/kv_sequence.h"

namespace attn {

// A SessionAnswer; its message stands behind the blocks. A value.
struct RecordedAnswer {
  uint64_t step = 0;
  uint64_t digest = 0;
  // False: it was too large to be kept.
  bool kept = false;
  int64_t message_bytes = 0;
};

// A value.
struct SessionRecord {
  std::string id;
  std::string tenant;
  // SessionSettings::opening.
  std::string opening;
  uint64_t epoch = 0;
  uint64_t next_step = 0;
  std::optional<int64_t> rolled_back_to;
  std::optional<RecordedAnswer> last;
  // By the clock on the wall; what the session was then.
  absl::Time written;
  absl::Duration idle;
  absl::Duration age;
  // Of every block; and each layer's.
  int64_t block_bytes = 0;
  std::vector<KvExtent> layers;

  // Of all layers' blocks that are there, and of what Save() gives and the
  // answer's message; INT64_MAX if they are more.
  int64_t memory_bytes() const;
  int64_t body_bytes() const;
};

// Numbers as 8 bytes, little-endian; texts as a length and bytes.
std::string EncodeSessionRecord(const SessionRecord& record);
// INVALID_ARGUMENT that says what is not as EncodeSessionRecord() writes it:
// numbers out of their range, extents that no sequence has, bytes that are
// missing or too many. Takes no more memory than a few times the text.
absl::StatusOr<SessionRecord> DecodeSessionRecord(absl::string_view text);

}  // namespace attn
