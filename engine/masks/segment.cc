// Documents packed in one sequence: a query sees the keys of its own segment.
#include "absl/strings/str_cat.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

class Segment final : public PredicateMask<Segment> {
 public:
  explicit Segment(const SegmentMask& spec)
      : PredicateMask(Alignment::kTopLeft), spec_(spec) {}

  bool Allows(const CallView& call, const QueryAt& at, int64_t key) const {
    const ParameterView q(call.args.inputs[spec_.q_segments]);
    const ParameterView kv(call.args.inputs[spec_.kv_segments]);
    return q.IndexAt(q.HeadOffset(at.batch, 1) + at.row) ==
           kv.IndexAt(kv.HeadOffset(at.batch, 1) + key);
  }

 private:
  SegmentMask spec_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<SegmentMask>(spec);
  const std::string field = absl::StrCat(list_field, ".segment");
  const AttentionShape& shape = problem.shape;
  absl::Status status =
      CheckIndices(problem, mask.q_segments,
                   {Shape{shape.batch, shape.q_length}, Shape{shape.q_length}},
                   absl::StrCat(field, ".q_segments.input"));
  if (!status.ok()) return status;
  return CheckIndices(
      problem, mask.kv_segments,
      {Shape{shape.batch, shape.kv_length}, Shape{shape.kv_length}},
      absl::StrCat(field, ".kv_segments.input"));
}

std::string Describe(const MaskSpec& /*spec*/) { return "segment"; }

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Segment>(std::get<SegmentMask>(spec));
}

}  // namespace

MaskEntry SegmentMaskEntry() {
  return {"segment", "keys of the query's own segment (packed documents)",
          4,         Validate,
          Describe,  Make};
}

}  // namespace attn
