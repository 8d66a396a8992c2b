// Ids of sessions that are gone.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>

#include "absl/strings/string_view.h"

namespace attn {

// Remembers the last so many. A session is gone for its own tenant only; others
// never knew it. Thread-compatible.
class GoneSessions {
 public:
  explicit GoneSessions(size_t most) : most_(most) {}
  GoneSessions(const GoneSessions&) = delete;
  GoneSessions& operator=(const GoneSessions&) = delete;

  // Drops the oldest if there are too many. An id goes once.
  void Remember(absl::string_view tenant, absl::string_view id);
  bool Contains(absl::string_view tenant, absl::string_view id) const;
  size_t size() const { return names_.size(); }

 private:
  const size_t most_;
  // In the order in which they went.
  std::deque<std::string> names_;
  // Views of names_, which does not move them.
  std::unordered_set<std::string_view> index_;
};

}  // namespace attn
