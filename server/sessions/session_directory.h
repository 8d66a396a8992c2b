// The folder of spilled sessions: one file each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/mutex.h"
#include "server/sessions/session_file.h"

namespace attn {

struct SessionDirectoryOptions {
  // Made if it is not there, for its owner alone; the folder around it is.
  std::string path;
  // Of all files together; 0: no bound but the disk's. Files that are there at
  // the start count, and stay if they are more.
  int64_t max_bytes = 0;
};

// Belongs to one server: it is locked as long as this lives. What the process
// leaves behind at its end stays.
//
// Thread-safe, but for two calls for one session at once. Blocks on the disk;
// no lock is held meanwhile.
class SessionDirectory {
 public:
  // Removes what writes that did not end have left. FAILED_PRECONDITION, one
  // line that names --session-dir: it cannot be used, or another server has it.
  static absl::StatusOr<std::unique_ptr<SessionDirectory>> Open(
      const SessionDirectoryOptions& options);
  ~SessionDirectory();
  SessionDirectory(const SessionDirectory&) = delete;
  SessionDirectory& operator=(const SessionDirectory&) = delete;

  // Ids of the files that were there at the start, in order.
  const std::vector<std::string>& found() const { return found_; }

  // As WriteSessionFile(); gives the file's bytes. RESOURCE_EXHAUSTED: that
  // many are not left of max_bytes.
  absl::StatusOr<int64_t> Write(const SessionRecord& record,
                                const std::vector<KvSequence>& layers,
                                absl::string_view message);
  // Makes what was written last through a loss of power. FAILED_PRECONDITION.
  absl::Status Sync() const { return SyncFolder(options_.path); }
  // As SessionFile::Open().
  absl::StatusOr<SessionFile> Read(const std::string& id) const {
    return SessionFile::Open(options_.path, id);
  }
  // Of a file of `bytes` that was written, or counted.
  void Remove(const std::string& id, int64_t bytes);
  // Gives the file another name, ID.session.damaged, for people to look at: it
  // is no session's any more, and does not count.
  void SetAside(const std::string& id, int64_t bytes);
  // Counts a file that was found.
  void Count(int64_t bytes) ATTN_EXCLUDES(mutex_);

  int64_t used_bytes() const ATTN_EXCLUDES(mutex_);

 private:
  SessionDirectory(SessionDirectoryOptions options, int lock);
  absl::Status Scan();
  // False: they are not left.
  bool Book(int64_t bytes) ATTN_EXCLUDES(mutex_);
  std::string PathOfId(const std::string& id) const;

  const SessionDirectoryOptions options_;
  const int lock_;
  std::vector<std::string> found_;
  mutable Mutex mutex_;
  int64_t used_bytes_ ATTN_GUARDED_BY(mutex_) = 0;
};

}  // namespace attn
