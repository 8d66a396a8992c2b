// A session as the table keeps it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/sessions/session.h"
#include "server/sessions/session_record.h"

namespace attn {

struct SessionEntry;

// The sessions of one tenant. Guarded by the table's lock, but for its name,
// which stays as long as there is a session.
struct SessionShelf {
  std::string tenant;
  // By id, without those that were closed while pinned.
  std::map<absl::string_view, std::shared_ptr<SessionEntry>> sessions;
  // With those.
  int64_t held = 0;
  int64_t bytes = 0;
};

// What a layer had when it was measured last.
struct LayerFigures {
  int64_t length = 0;
  int64_t bytes = 0;
  int64_t own_bytes = 0;
  // Blocks that it had then, released ones and those not begun counted.
  int64_t blocks = 0;
  // Its blocks may have changed hands since.
  bool touched = true;
};

// What a session takes beside blocks: itself, its layers, the inputs of its
// spec and what it was opened with, about. In bytes.
int64_t BytesOfEmptySession(const SessionSettings& settings);

// Thread-compatible: the members say whose they are.
struct SessionEntry {
  SessionEntry(std::shared_ptr<const SessionSettings> made_with,
               SessionState begun);
  // One whose file of `file_bytes` was found.
  SessionEntry(std::shared_ptr<const SessionSettings> made_with,
               const SessionRecord& record, int64_t file_bytes);

  // Of whoever has it pinned: blocks that Reserve(tokens) of a layer will add
  // to its bytes, in bytes.
  int64_t BytesToReserve(int layer, int64_t tokens);
  // After that Reserve().
  void Reserved(int layer, int64_t tokens);
  // All blocks may be shared, or not be any more.
  void TouchLayers();
  // Brings `figures`, `bytes`, `own_bytes` up to date: looks at the blocks of
  // the layers that changed.
  void Measure();
  // It has a file instead of layers and of its last answer, and the reverse.
  void Spilled(int64_t file_bytes);
  void Restored(SessionState read);

  // Anybody's.
  const std::string id;
  const std::shared_ptr<const SessionSettings> settings;
  // BytesOfEmptySession(), which the tenant is charged too.
  const int64_t base_bytes;

  // Of whoever has it pinned.
  // For base_bytes; null of one that is on disk, which takes little.
  KvCharge base;
  SessionState state;
  std::vector<LayerFigures> figures;
  int64_t bytes = 0;
  int64_t own_bytes = 0;
  // Of its file; 0: it has none.
  int64_t spilled_bytes = 0;

  // Guarded by the table's lock.
  // Takes what is told of it from the state, after Measure(). Of one that is
  // spilled the lengths stay.
  void Publish();
  absl::Time Due() const { return last_used + idle_timeout; }
  SessionShelf* shelf = nullptr;
  bool pinned = true;
  bool closed = false;
  // What `spilled_bytes` says, as it is counted.
  bool on_disk = false;
  absl::Time opened;
  absl::Time last_used;
  absl::Duration idle_timeout;
  // What its tenant is charged.
  int64_t charged = 0;
  SessionSnapshot told;

 private:
  // Brings what can be told without looking at each block up to date.
  void Refresh(size_t layer);
};

}  // namespace attn
