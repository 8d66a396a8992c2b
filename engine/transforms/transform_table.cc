#include "engine/transforms/members.h"

namespace attn {

const char* TargetName(TransformTarget target) {
  switch (target) {
    case TransformTarget::kBoth:
      return "";
    case TransformTarget::kQuery:
      return "q";
    case TransformTarget::kKey:
      return "k";
  }
  return "";
}

absl::Span<const TransformEntry> TransformTable() {
  static const TransformEntry kTable[] = {
      RotaryTransformEntry(),
      NormTransformEntry(),
  };
  return kTable;
}

}  // namespace attn
