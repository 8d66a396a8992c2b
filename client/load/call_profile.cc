#include "client/load/call_profile.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"

namespace attn {

AttentionSpec CallProfile::Spec() const {
  AttentionSpec spec = stages;
  if (causal) {
    spec.masks.emplace_back(CausalMask{shape.q_length == shape.kv_length
                                           ? Alignment::kUnspecified
                                           : Alignment::kBottomRight});
  }
  return spec;
}

std::string CallProfile::ToString() const {
  std::string text =
      absl::StrCat(kind == CallKind::kInspect ? "inspect " : "", shape.batch,
                   ",", shape.q_heads, ",", shape.kv_heads, ",", shape.q_length,
                   ",", shape.kv_length, ",", shape.k_dim);
  if (shape.v_dim != shape.k_dim) absl::StrAppend(&text, ",", shape.v_dim);
  absl::StrAppend(&text, " ", Name(dtype), causal ? " causal" : "");
  if (!(stages == AttentionSpec())) absl::StrAppend(&text, " with a spec");
  if (priority == v1::PRIORITY_HIGH) absl::StrAppend(&text, " high priority");
  if (priority == v1::PRIORITY_LOW) absl::StrAppend(&text, " low priority");
  return text;
}

absl::StatusOr<AttentionShape> ParseCallShape(const std::string& text) {
  constexpr size_t kFewest = 6;
  constexpr size_t kMost = 7;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  std::vector<int64_t> extents;
  for (const std::string& part : parts) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent) || extent <= 0) break;
    extents.push_back(extent);
  }
  if (extents.size() != parts.size() || parts.size() < kFewest ||
      parts.size() > kMost) {
    return FieldError("shape", absl::StrCat("\"", text, "\""),
                      "B,Hq,Hkv,Sq,Sk,D or B,Hq,Hkv,Sq,Sk,D,Dv, each > 0");
  }
  return AttentionShape{.batch = extents[0],
                        .q_heads = extents[1],
                        .kv_heads = extents[2],
                        .q_length = extents[3],
                        .kv_length = extents[4],
                        .q_dim = extents[5],
                        .k_dim = extents[5],
                        .v_dim = extents.back()};
}

}  // namespace attn
