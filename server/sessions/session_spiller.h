// Sessions on their way to the disk and back.
#pragma once

#include <any>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/sessions/session_directory.h"
#include "server/sessions/session_entry.h"
#include "server/sessions/session_totals.h"

namespace attn {

// What only the door of the server can read. Thread-safe.
struct SpillCodec {
  // SessionSettings::opening as settings again. An error is the file's.
  std::function<absl::StatusOr<std::shared_ptr<const SessionSettings>>(
      const std::string& opening)>
      settings;
  // SessionAnswer::message as bytes, and back.
  std::function<std::string(const std::any& message)> answer_bytes;
  std::function<std::any(const std::string& bytes)> answer;
};

struct SpillOptions {
  SpillCodec codec;
  // Takes a line for the log: the first failure after a success, and each file
  // that is damaged.
  std::function<void(absl::string_view line)> report;
  // Time that goes on while there is no server.
  std::function<absl::Time()> wall_clock = absl::Now;
};

// One session that the directory had at the start. A value.
struct FoundSession {
  std::shared_ptr<SessionEntry> entry;
  std::string tenant;
  absl::Duration idle;
  absl::Duration age;
};

// Thread-safe. Blocks on the disk; holds no lock meanwhile.
class SessionSpiller {
 public:
  SessionSpiller(std::unique_ptr<SessionDirectory> directory,
                 SpillOptions options);

  // The sessions of the directory; files that are damaged are set aside. Once.
  std::vector<FoundSession> Find();
  // Writes a pinned session to its file, then lets go of its memory. False: it
  // stays as it is.
  bool Spill(SessionEntry& entry, absl::Time now);
  // SessionDirectory::Sync(), whose failure is reported.
  void Sync();

  // The file of a pinned session that is spilled. NOT_FOUND (SESSION_DAMAGED):
  // it is set aside. UNAVAILABLE: it stays.
  absl::StatusOr<SessionFile> Read(SessionEntry& entry);
  // Reads it into `layers`, which have its record's extents, and makes the
  // session what it was; then the file goes. Without a charge for its kept
  // answer, if it has one, that is left out. As Read().
  absl::Status Restore(SessionEntry& entry, SessionFile& file,
                       std::vector<KvSequence> layers, KvCharge for_answer);
  // Of a session that is gone.
  void Remove(const SessionEntry& entry);

  // Adds what is counted here.
  void AddTo(SessionTotals& totals) const;

 private:
  // By SessionSettings::opening.
  using KnownSettings =
      std::map<std::string, std::shared_ptr<const SessionSettings>>;

  absl::StatusOr<int64_t> Write(const SessionEntry& entry, absl::Time now);
  absl::StatusOr<FoundSession> FindOne(const std::string& id,
                                       KnownSettings& known);
  // What the caller of a session is told; sets the file aside if it is damaged.
  absl::Status Failed(SessionEntry& entry, const absl::Status& status);
  void Count(SpillError error);

  const std::unique_ptr<SessionDirectory> directory_;
  const SpillOptions options_;
  std::atomic<bool> failing_{false};
  std::atomic<int64_t> spills_{0};
  std::atomic<int64_t> restores_{0};
  std::array<std::atomic<int64_t>, 4> errors_{};
};

}  // namespace attn
