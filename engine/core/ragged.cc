#include "engine/core/ragged.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// q, k and v are [rows, heads, dim].
constexpr int kTensorRank = 3;
constexpr int kRows = 0;
constexpr int kHeads = 1;
constexpr int kDim = 2;

absl::Status CheckRank(const TensorView& tensor, absl::string_view field) {
  if (tensor.shape.rank() == kTensorRank) return absl::OkStatus();
  return FieldError(field, tensor.shape.ToString(),
                    "rank 3 with offsets: [rows, heads, dim]");
}

absl::Status CheckAsInK(const AttentionArgs& args, int axis,
                        absl::string_view name) {
  if (args.v.shape[axis] == args.k.shape[axis]) return absl::OkStatus();
  return FieldError("v.shape", args.v.shape.ToString(),
                    absl::StrCat(name, " ", args.k.shape[axis],
                                 " as in k.shape ", args.k.shape.ToString()));
}

// That there are offsets of both kinds, of one count, and no lengths.
absl::Status CheckPresence(const AttentionArgs& args) {
  const size_t count = args.q_offsets.size();
  if (args.kv_offsets.size() != count) {
    const bool no_q = args.q_offsets.empty();
    return FieldError(
        no_q ? "q_offsets" : "kv_offsets",
        absl::StrCat(no_q ? 0 : args.kv_offsets.size(), " offsets"),
        absl::StrCat(no_q ? args.kv_offsets.size() : count, ", as many as ",
                     no_q ? "kv_offsets" : "q_offsets"));
  }
  const bool q_lengths = !args.q_lengths.empty();
  if (!q_lengths && args.kv_lengths.empty()) return absl::OkStatus();
  return FieldError(
      q_lengths ? "q_lengths" : "kv_lengths",
      absl::StrCat(q_lengths ? args.q_lengths.size() : args.kv_lengths.size(),
                   " lengths"),
      "none beside offsets");
}

absl::Status CheckOffsets(const std::vector<int64_t>& offsets, int64_t rows,
                          absl::string_view field) {
  int64_t least = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const bool last = i + 1 == offsets.size();
    const int64_t most = i == 0 && !last ? 0 : rows;
    if (last) least = std::max(least, rows);
    if (offsets[i] < least || offsets[i] > most) {
      return FieldError(
          absl::StrCat(field, "[", i, "]"), absl::StrCat(offsets[i]),
          least == most ? absl::StrCat(most, last ? ", the number of rows" : "")
                        : absl::StrCat(least, " to ", most));
    }
    least = offsets[i];
  }
  return absl::OkStatus();
}

int64_t Longest(const std::vector<int64_t>& offsets) {
  int64_t longest = 0;
  for (size_t i = 1; i < offsets.size(); ++i) {
    longest = std::max(longest, offsets[i] - offsets[i - 1]);
  }
  return longest;
}

}  // namespace

absl::StatusOr<AttentionShape> RaggedShape(const AttentionArgs& args) {
  for (const absl::Status& status :
       {CheckRank(args.q, "q.shape"), CheckRank(args.k, "k.shape"),
        CheckRank(args.v, "v.shape")}) {
    if (!status.ok()) return status;
  }
  for (const absl::Status& status :
       {CheckAsInK(args, kHeads, "heads"), CheckAsInK(args, kRows, "rows"),
        CheckPresence(args),
        CheckOffsets(args.q_offsets, args.q.shape[kRows], "q_offsets"),
        CheckOffsets(args.kv_offsets, args.k.shape[kRows], "kv_offsets")}) {
    if (!status.ok()) return status;
  }
  AttentionShape shape;
  shape.batch = static_cast<int64_t>(args.q_offsets.size()) - 1;
  shape.q_heads = args.q.shape[kHeads];
  shape.kv_heads = args.k.shape[kHeads];
  shape.q_length = Longest(args.q_offsets);
  shape.kv_length = Longest(args.kv_offsets);
  shape.q_dim = args.q.shape[kDim];
  shape.k_dim = args.k.shape[kDim];
  shape.v_dim = args.v.shape[kDim];
  return shape;
}

}  // namespace attn
