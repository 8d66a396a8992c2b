#include "server/rpc/inspect_window.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

absl::Status Resolve(const v1::IndexRange& range, absl::string_view axis,
                     int64_t extent, AxisRange& to) {
  to.begin = range.begin();
  to.end = range.has_end() ? range.end() : extent;
  if (to.begin < 0 || to.begin > extent) {
    return FieldError(absl::StrCat("window.", axis, ".begin"),
                      absl::StrCat(to.begin), absl::StrCat("0 to ", extent));
  }
  if (to.end < to.begin || to.end > extent) {
    return FieldError(absl::StrCat("window.", axis, ".end"),
                      absl::StrCat(to.end),
                      absl::StrCat(to.begin, " to ", extent));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScoreWindow> ResolveWindow(const v1::InspectWindow& window,
                                          const AttentionShape& shape) {
  ScoreWindow resolved;
  for (const absl::Status& status :
       {Resolve(window.batch(), "batch", shape.batch, resolved.batch),
        Resolve(window.head(), "head", shape.q_heads, resolved.head),
        Resolve(window.query(), "query", shape.q_length, resolved.query),
        Resolve(window.key(), "key", shape.kv_length, resolved.key)}) {
    if (!status.ok()) return status;
  }
  return resolved;
}

Shape ShapeOf(const ScoreWindow& window) {
  return {window.batch.size(), window.head.size(), window.query.size(),
          window.key.size()};
}

}  // namespace attn
