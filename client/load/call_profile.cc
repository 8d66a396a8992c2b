#include "client/load/call_profile.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// In front of the shape.
std::string DescribeKind(const CallProfile& profile) {
  if (profile.kind == CallKind::kInspect) return "inspect ";
  if (profile.kind == CallKind::kAttend) return "";
  const int count = profile.sessions.sessions;
  return absl::StrCat(count, count == 1 ? " session of " : " sessions of ");
}

// Behind it, what is not as it is by default.
std::string DescribeRest(const SessionProfile& sessions) {
  std::string text;
  if (sessions.layers > 1)
    absl::StrAppend(&text, ", ", sessions.layers, " layers");
  if (sessions.kv_dtype != DType::kF32) {
    absl::StrAppend(&text, ", kept as ", Name(sessions.kv_dtype));
  }
  if (sessions.shared > 0) {
    absl::StrAppend(&text, ", ", sessions.shared, " tokens shared");
  }
  if (sessions.steps > 0) {
    absl::StrAppend(&text, ", ", sessions.steps, " steps each");
  }
  if (sessions.stream) absl::StrAppend(&text, ", streamed");
  return text;
}

}  // namespace

AttentionSpec CallProfile::Spec() const {
  AttentionSpec spec = stages;
  if (causal) {
    const bool square =
        kind != CallKind::kSession && shape.q_length == shape.kv_length;
    spec.masks.emplace_back(
        CausalMask{square ? Alignment::kUnspecified : Alignment::kBottomRight});
  }
  return spec;
}

std::string CallProfile::ToString() const {
  std::string text = DescribeKind(*this);
  absl::StrAppend(&text, shape.batch, ",", shape.q_heads, ",", shape.kv_heads,
                  ",", shape.q_length, ",", shape.kv_length, ",", shape.k_dim);
  if (shape.v_dim != shape.k_dim) absl::StrAppend(&text, ",", shape.v_dim);
  absl::StrAppend(&text, " ", Name(dtype), causal ? " causal" : "");
  if (!(stages == AttentionSpec())) absl::StrAppend(&text, " with a spec");
  if (kind == CallKind::kSession)
    absl::StrAppend(&text, DescribeRest(sessions));
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
