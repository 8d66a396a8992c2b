#include "proto/codec/packed_qkv.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// Of [B, S, 3, H, D] and of [B, S, heads, D].
constexpr int kThirdsRank = 5;
constexpr int kHeadsRank = 4;
constexpr int kPartAxis = 2;
constexpr int64_t kParts = 3;

// [B, heads, S, D] from element `first` on, of rows and heads as in `qkv`.
TensorView Part(const TensorView& qkv, int64_t first, int64_t heads) {
  const auto last = static_cast<size_t>(qkv.shape.rank()) - 1;
  const auto& strides = qkv.strides;
  TensorView view;
  view.dtype = qkv.dtype;
  view.shape = {qkv.shape[0], heads, qkv.shape[1],
                qkv.shape[qkv.shape.rank() - 1]};
  view.strides = {strides[0], strides[last - 1], strides[1], strides[last]};
  if (qkv.data != nullptr) {
    view.data = qkv.data + first * static_cast<int64_t>(SizeOf(qkv.dtype));
  }
  return view;
}

absl::Status UnpackThirds(const TensorView& qkv, int64_t packed_kv_heads,
                          AttentionArgs& args) {
  if (qkv.shape[kPartAxis] != kParts) {
    return FieldError("qkv.shape", qkv.shape.ToString(),
                      "[B, S, 3, H, D] for rank 5");
  }
  if (packed_kv_heads != 0) {
    return FieldError("packed_kv_heads", absl::StrCat(packed_kv_heads),
                      "none for qkv of rank 5: k has as many heads as q");
  }
  const int64_t heads = qkv.shape[kPartAxis + 1];
  const int64_t stride = qkv.strides[kPartAxis];
  args.q = Part(qkv, 0, heads);
  args.k = Part(qkv, stride, heads);
  args.v = Part(qkv, 2 * stride, heads);
  return absl::OkStatus();
}

absl::Status UnpackHeads(const TensorView& qkv, int64_t kv_heads,
                         AttentionArgs& args) {
  const int64_t all = qkv.shape[kPartAxis];
  // No sum of two that could overflow.
  if (kv_heads < 1 || kv_heads > (all - 1) / 2) {
    return FieldError("packed_kv_heads", absl::StrCat(kv_heads),
                      absl::StrCat("1 or more for qkv of rank 4, and fewer "
                                   "than half of its ",
                                   all, " heads"));
  }
  const int64_t q_heads = all - 2 * kv_heads;
  const int64_t stride = qkv.strides[kPartAxis];
  args.q = Part(qkv, 0, q_heads);
  args.k = Part(qkv, q_heads * stride, kv_heads);
  args.v = Part(qkv, (q_heads + kv_heads) * stride, kv_heads);
  return absl::OkStatus();
}

}  // namespace

absl::Status UnpackQkv(const TensorView& qkv, int64_t packed_kv_heads,
                       AttentionArgs& args) {
  switch (qkv.shape.rank()) {
    case kThirdsRank:
      return UnpackThirds(qkv, packed_kv_heads, args);
    case kHeadsRank:
      return UnpackHeads(qkv, packed_kv_heads, args);
    default:
      return FieldError("qkv.shape", qkv.shape.ToString(),
                        "[B, S, 3, H, D], or [B, S, Hq + 2 * packed_kv_heads, "
                        "D]");
  }
}

}  // namespace attn
