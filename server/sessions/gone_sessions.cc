#include "server/sessions/gone_sessions.h"

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

// A tenant's name has no such byte.
std::string GoneName(absl::string_view tenant, absl::string_view id) {
  return absl::StrCat(tenant, absl::string_view("\0", 1), id);
}

}  // namespace

void GoneSessions::Remember(absl::string_view tenant, absl::string_view id) {
  if (names_.size() == most_) {
    index_.erase(names_.front());
    names_.pop_front();
  }
  index_.insert(names_.emplace_back(GoneName(tenant, id)));
}

bool GoneSessions::Contains(absl::string_view tenant,
                            absl::string_view id) const {
  return index_.contains(GoneName(tenant, id));
}

}  // namespace attn
