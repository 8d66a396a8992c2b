// A layout of blocks, any size: block (i / q_block, j / kv_block) is allowed.
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/block_count.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"

namespace attn {
namespace {

class BlockSparse final : public PredicateMask<BlockSparse> {
 public:
  explicit BlockSparse(const BlockSparseMask& spec)
      : PredicateMask(Alignment::kTopLeft), spec_(spec) {}

  bool Allows(const CallView& call, const QueryAt& at, int64_t key) const {
    const TensorView& layout = call.args.inputs[spec_.layout];
    const int64_t index[4] = {at.batch, at.head, at.row / spec_.q_block,
                              key / spec_.kv_block};
    const int skipped = 4 - layout.shape.rank();
    int64_t offset = 0;
    for (int axis = skipped; axis < 4; ++axis) {
      const int own = axis - skipped;
      if (layout.shape[own] == 1) continue;
      offset += index[axis] * layout.strides[static_cast<size_t>(own)];
    }
    return layout.data[offset] != std::byte{0};
  }

 private:
  BlockSparseMask spec_;
};

absl::Status CheckLayout(const BlockSparseMask& mask, const Problem& problem,
                         const std::string& field) {
  if (mask.layout >= problem.inputs.size()) {
    return FieldError(
        field, absl::StrCat(mask.layout),
        absl::StrCat("the index of one of ", problem.inputs.size(), " inputs"));
  }
  const TensorSignature& layout = problem.inputs[mask.layout];
  const AttentionShape& shape = problem.shape;
  const Shape target = {shape.batch, shape.q_heads,
                        BlockCount(shape.q_length, mask.q_block),
                        BlockCount(shape.kv_length, mask.kv_block)};
  const int rank = layout.shape.rank();
  bool fits = rank >= 2 && rank <= 4;
  for (int axis = 0; fits && axis < rank; ++axis) {
    const int64_t extent = layout.shape[axis];
    fits =
        extent == target[4 - rank + axis] || (extent == 1 && axis < rank - 2);
  }
  if (!fits) {
    return FieldError(field, layout.shape.ToString(),
                      absl::StrCat("blocks that broadcast to ",
                                   target.ToString(), ", rank 2 to 4"));
  }
  if (layout.dtype == DType::kBool) return absl::OkStatus();
  return FieldError(field, Name(layout.dtype), "BOOL");
}

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<BlockSparseMask>(spec);
  const std::string field = absl::StrCat(list_field, ".block_sparse");
  if (mask.q_block < 1) {
    return FieldError(absl::StrCat(field, ".q_block"),
                      absl::StrCat(mask.q_block), "a size >= 1");
  }
  if (mask.kv_block < 1) {
    return FieldError(absl::StrCat(field, ".kv_block"),
                      absl::StrCat(mask.kv_block), "a size >= 1");
  }
  return CheckLayout(mask, problem, absl::StrCat(field, ".layout.input"));
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<BlockSparseMask>(spec);
  return absl::StrCat("block_sparse(", mask.q_block, " x ", mask.kv_block, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<BlockSparse>(std::get<BlockSparseMask>(spec));
}

}  // namespace

MaskEntry BlockSparseMaskEntry() {
  return {"block_sparse",
          "a BOOL layout of blocks of any size",
          5,
          Validate,
          Describe,
          Make};
}

}  // namespace attn
