// One session as a file: ID.session.
//
// A prefix of 24 bytes (magic, version, length and CRC-32 of the record, and of
// the prefix itself), the record, the blocks of each layer as
// KvSequence::Save() gives them, the answer's message, and the CRC-32 of all
// behind the record. Numbers are little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/cache/kv_sequence.h"
#include "server/sessions/checked_file.h"
#include "server/sessions/session_record.h"

namespace attn {

std::string SessionFileName(absl::string_view id);
// Of the file that WriteSessionFile() makes.
int64_t SessionFileBytes(const SessionRecord& record);

// Puts the file where it belongs, or nothing: it is written under a temporary
// name, synced, and renamed. `layers` and `message` are what the record says.
// FAILED_PRECONDITION says what could not be done. The new name lasts through a
// loss of power after SyncFolder().
absl::Status WriteSessionFile(const std::string& directory,
                              const SessionRecord& record,
                              const std::vector<KvSequence>& layers,
                              absl::string_view message);
// Whether a write that did not end has left it.
bool IsTemporarySessionFile(absl::string_view name);

// A file whose record was read and checked. What it says can be trusted, as far
// as a checksum goes; what is behind it cannot, until Read() returns.
// Move-only; thread-compatible.
class SessionFile {
 public:
  // DATA_LOSS: it is not there, or not what WriteSessionFile() makes of that
  // id. UNAVAILABLE: it could not be looked at now. Allocates no more than the
  // file has bytes.
  static absl::StatusOr<SessionFile> Open(const std::string& directory,
                                          const std::string& id);

  const SessionRecord& record() const { return record_; }
  int64_t bytes() const { return file_.size(); }

  // Fills layers that have the record's extents, and gives the message, empty
  // if there is none. DATA_LOSS: then the layers hold anything. Once.
  absl::StatusOr<std::string> Read(std::vector<KvSequence>& layers);

 private:
  SessionFile(CheckedFile file, SessionRecord record)
      : file_(std::move(file)), record_(std::move(record)) {}

  CheckedFile file_;
  SessionRecord record_;
};

}  // namespace attn
