#include "engine/cache/step_spec.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/cache/step_stages.h"
#include "engine/core/field_error.h"
#include "engine/core/problem.h"

namespace attn {
namespace {

// Masks of a spec hold together: what one of them hides is hidden.
KeyWindow WindowOf(const std::vector<MaskSpec>& masks) {
  KeyWindow found;
  for (const MaskSpec& mask : masks) {
    const auto& member = static_cast<const MaskSpec::variant&>(mask);
    KeyWindow window;
    if (const auto* sliding = std::get_if<WindowMask>(&member);
        sliding != nullptr && sliding->left.has_value()) {
      window = {.bounded = true, .left = *sliding->left, .keep = 0};
    } else if (const auto* streaming = std::get_if<StreamingMask>(&member);
               streaming != nullptr) {
      window = {
          .bounded = true, .left = streaming->left, .keep = streaming->sinks};
    }
    const bool hides_more =
        window.bounded &&
        (!found.bounded || std::pair(window.keep, window.left) <
                               std::pair(found.keep, found.left));
    if (hides_more) found = window;
  }
  return found;
}

TransformTarget TargetOf(const TransformSpec& transform) {
  return std::visit([](const auto& member) { return member.target; },
                    transform);
}

}  // namespace

absl::StatusOr<StepSpec> StepSpec::Make(AttentionSpec spec,
                                        std::vector<TensorView> inputs,
                                        const KvLayout& layout, int64_t q_heads,
                                        int64_t q_dim) {
  absl::Status status = FitToSteps(spec, inputs);
  if (!status.ok()) return status;
  StepSpec made;
  made.spec_ = std::move(spec);
  made.layout_ = layout;
  made.args_.inputs = std::move(inputs);
  made.window_ = WindowOf(made.spec_.masks);
  status = made.MakeTransforms(q_heads, q_dim);
  if (!status.ok()) return status;
  return made;
}

absl::Status StepSpec::MakeTransforms(int64_t q_heads, int64_t q_dim) {
  AttentionArgs whole = args_;
  const auto described = [](int64_t heads, int64_t width) {
    return TensorView::Dense(nullptr, DType::kF32, {1, heads, 1, width});
  };
  whole.q = described(q_heads, q_dim);
  whole.k = described(layout_.kv_heads, layout_.k_dim);
  whole.v = described(layout_.kv_heads, layout_.v_dim);
  auto problem = MakeProblem(spec_, whole, OutputSelection{}, DType::kF32, "");
  if (!problem.ok()) return problem.status();
  shape_ = problem->shape;
  for (size_t i = 0; i < spec_.transforms.size(); ++i) {
    const TransformSpec& transform = spec_.transforms[i];
    for (const TransformEntry& entry : TransformTable()) {
      if (entry.index != transform.index()) continue;
      absl::Status status = entry.validate(
          transform, *problem, absl::StrCat("spec.transforms[", i, "]"));
      if (!status.ok()) return status;
      std::shared_ptr<const Transform> stage = entry.make(transform, *problem);
      if (stage->Applies(Side::kKey)) transforms_.push_back(std::move(stage));
    }
  }
  return absl::OkStatus();
}

AttentionSpec StepSpec::At(int64_t position) const {
  AttentionSpec spec = spec_;
  std::erase_if(spec.transforms, [](const TransformSpec& transform) {
    return TargetOf(transform) == TransformTarget::kKey;
  });
  for (TransformSpec& transform : spec.transforms) {
    std::visit([](auto& member) { member.target = TransformTarget::kQuery; },
               transform);
    auto* rotary = std::get_if<RotaryTransform>(&transform);
    if (rotary != nullptr) rotary->query_offset += position;
  }
  if (layout_.quantized()) {
    const auto inputs = static_cast<uint32_t>(args_.inputs.size());
    spec.kv_quantization = {.granularity = QuantizationGranularity::kPerToken,
                            .key_scale = inputs,
                            .value_scale = inputs + 1};
  }
  return spec;
}

AttentionArgs StepSpec::Args(int64_t keys) const {
  AttentionArgs args = args_;
  args.k = TensorView::Dense(nullptr, layout_.dtype,
                             {1, layout_.kv_heads, keys, layout_.k_dim});
  args.v = TensorView::Dense(nullptr, layout_.dtype,
                             {1, layout_.kv_heads, keys, layout_.v_dim});
  args.kv_blocks.block_tokens = kKvBlockTokens;
  if (layout_.quantized()) {
    const TensorView scales =
        TensorView::Dense(nullptr, DType::kF32, {1, layout_.kv_heads, keys});
    args.inputs.insert(args.inputs.end(), 2, scales);
  }
  return args;
}

absl::Status StepSpec::CheckReach(int64_t keys) const {
  for (size_t i = 0; i < spec_.transforms.size(); ++i) {
    const auto* rotary = std::get_if<RotaryTransform>(&spec_.transforms[i]);
    if (rotary == nullptr || !rotary->cos.has_value()) continue;
    // There is a query wherever there is a key.
    int64_t offset = std::max(rotary->query_offset, rotary->key_offset);
    if (rotary->target == TransformTarget::kQuery) {
      offset = rotary->query_offset;
    } else if (rotary->target == TransformTarget::kKey) {
      offset = rotary->key_offset;
    }
    const int64_t positions = args_.inputs[*rotary->cos].shape[0];
    if (keys <= positions - offset) continue;
    return FieldError(absl::StrCat("spec.transforms[", i, "].rotary.cos.input"),
                      absl::StrCat(positions, " positions"),
                      absl::StrCat("at least ", keys + offset,
                                   ", as a session of ", keys, " tokens has"));
  }
  return absl::OkStatus();
}

PrepareKeys StepSpec::preparation() const {
  if (transforms_.empty()) return nullptr;
  std::vector<KeyTransform> transforms;
  for (const auto& transform : transforms_) {
    transforms.push_back(transform->OverHeads());
  }
  return [this, transforms = std::move(transforms)](
             int64_t kv_head, int64_t first, int64_t count, float* rows) {
    const CallView view{shape_, args_};
    const RowSpan span{0, kv_head, first, count};
    for (const KeyTransform& transform : transforms) {
      transform(view, span, rows);
    }
  };
}

}  // namespace attn
