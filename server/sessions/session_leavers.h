// Sessions that leave the table.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/runtime/mutex.h"
#include "server/sessions/session_entry.h"
#include "server/sessions/session_table.h"

namespace attn {

// Made before the table's lock is taken, so that it is destroyed, and their
// memory and files with it, after that is let go. Thread-compatible.
class SessionLeavers {
 public:
  explicit SessionLeavers(SessionTable& table) : table_(table) {}
  SessionLeavers(const SessionLeavers&) = delete;
  SessionLeavers& operator=(const SessionLeavers&) = delete;
  ~SessionLeavers() {
    if (entries_.empty()) return;
    const auto count = static_cast<int64_t>(entries_.size());
    for (const auto& entry : entries_) {
      if (entry->spilled_bytes > 0) table_.remove_file_(*entry);
    }
    entries_.clear();
    const MutexLock lock(table_.mutex_);
    table_.leaving_ -= count;
    ++table_.freed_;
    table_.left_.NotifyAll();
  }
  void Add(std::shared_ptr<SessionEntry> entry) {
    entries_.push_back(std::move(entry));
  }

 private:
  SessionTable& table_;
  std::vector<std::shared_ptr<SessionEntry>> entries_;
};

}  // namespace attn
