#include "server/sessions/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {

int64_t LongestLayer(const SessionState& state) {
  int64_t longest = 0;
  for (const KvSequence& layer : state.layers) {
    longest = std::max(longest, layer.length());
  }
  return longest;
}

absl::Status CheckCut(const SessionState& state, int64_t position) {
  const int64_t longest = LongestLayer(state);
  if (position >= 0 && position <= longest) return absl::OkStatus();
  return FieldError(
      "position", absl::StrCat(position),
      absl::StrCat("0 to ", longest, ", the tokens that the session has"));
}

absl::Status CutLayers(SessionState& state, int64_t position, int64_t window) {
  std::vector<KvSequence> cut = state.layers;
  for (KvSequence& layer : cut) {
    if (layer.length() <= position) continue;
    absl::Status status = layer.Truncate(position, window);
    if (!status.ok()) return status;
  }
  state.layers = std::move(cut);
  return absl::OkStatus();
}

}  // namespace attn
