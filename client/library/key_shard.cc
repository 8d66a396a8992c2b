#include "client/library/key_shard.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/field_error.h"
#include "engine/core/spec_inputs.h"

namespace attn {
namespace {

// What tiles of keys are multiples of.
constexpr int64_t kKeyStep = 64;
// No sequence is longer; sums with it are exact, also as doubles.
constexpr int64_t kFarthest = int64_t{1} << 48;

TensorView Slice(TensorView view, int axis, ShardRange range) {
  const auto at = static_cast<size_t>(axis);
  if (view.data != nullptr) {
    view.data += range.begin * view.strides[at] *
                 static_cast<int64_t>(SizeOf(view.dtype));
  }
  std::vector<int64_t> dims(view.shape.dims().begin(), view.shape.dims().end());
  dims[at] = range.end - range.begin;
  // No extent grows.
  view.shape = *Shape::Create(dims, 1, "shape");
  return view;
}

absl::Status Refuse(absl::string_view field, absl::string_view got,
                    absl::string_view expected) {
  return FieldError(field, got,
                    absl::StrCat(expected, " where keys are divided"));
}

// Makes the shard: one method for each stage that looks at keys.
class Sharder {
 public:
  Sharder(const AttendMessage& whole, ShardRange range)
      : whole_(whole),
        range_(range),
        queries_(whole.args.q.shape[2]),
        keys_(whole.args.k.shape[2]),
        whole_inputs_(WholeInputs(whole.spec)),
        shard_(whole) {}

  absl::StatusOr<AttendMessage> Make() {
    for (const absl::Status& status :
         {CheckWanted(), CheckStages(), CheckLengths(), ShiftTransforms(),
          SliceBiases(), ShiftMasks()}) {
      if (!status.ok()) return status;
    }
    shard_.args.k = Slice(whole_.args.k, 2, range_);
    shard_.args.v = Slice(whole_.args.v, 2, range_);
    for (int64_t& length : shard_.args.kv_lengths) {
      length = std::clamp<int64_t>(length - range_.begin, 0,
                                   range_.end - range_.begin);
    }
    shard_.spec.normalizer = SoftmaxNormalizer{};
    shard_.bshd = false;
    shard_.wanted = {.output = true, .lse = true};
    shard_.output_dtype =
        whole_.args.q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    return std::move(shard_);
  }

 private:
  absl::Status CheckWanted() const {
    WantedOutputs other = whole_.wanted;
    other.output = other.lse = other.lse_with_sink = false;
    const OutputSelection selected = other.Selection();
    const bool any = selected.logits || selected.masked_logits ||
                     selected.weights || selected.dropout_keep ||
                     selected.state || selected.head_output ||
                     selected.statistics;
    if (!any) return absl::OkStatus();
    return Refuse("wanted", "other outputs",
                  "output, lse and lse_with_sink alone");
  }

  absl::Status CheckStages() const {
    const AttentionSpec& spec = whole_.spec;
    if (!std::holds_alternative<SoftmaxNormalizer>(spec.normalizer)) {
      return Refuse("spec.normalizer", "another", "softmax");
    }
    if (!spec.sparsifiers.empty()) {
      return Refuse("spec.sparsifiers", absl::StrCat(spec.sparsifiers.size()),
                    "none");
    }
    if (spec.score_program.has_value() || spec.weight_program.has_value()) {
      return Refuse(spec.score_program.has_value() ? "spec.score_program"
                                                   : "spec.weight_program",
                    "a program", "none");
    }
    if (spec.dropout.has_value()) {
      return Refuse("spec.dropout", "dropout", "none");
    }
    if (spec.kv_quantization.has_value()) {
      return Refuse("spec.kv_quantization", "I8 keys", "keys of a float type");
    }
    return absl::OkStatus();
  }

  // No server sees that one was too long: its part of it is not.
  absl::Status CheckLengths() const {
    const std::vector<int64_t>& lengths = whole_.args.kv_lengths;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] >= 0 && lengths[i] <= keys_) continue;
      return FieldError(absl::StrCat("kv_lengths[", i, "]"),
                        absl::StrCat(lengths[i]), absl::StrCat("0 to ", keys_));
    }
    return absl::OkStatus();
  }

  // The index of an input of which the last axis is cut like the keys.
  uint32_t SliceInput(uint32_t input) {
    const TensorView& view = whole_.args.inputs[input];
    const int last = view.shape.rank() - 1;
    if (last < 0 || view.shape[last] != keys_) return input;
    const TensorView slice = Slice(view, last, range_);
    if (whole_inputs_.contains(input)) {
      shard_.args.inputs.push_back(slice);
      return static_cast<uint32_t>(shard_.args.inputs.size() - 1);
    }
    shard_.args.inputs[input] = slice;
    return input;
  }

  // Inputs that some stage needs as they are.
  static std::set<uint32_t> WholeInputs(AttentionSpec spec) {
    spec.masks.clear();
    spec.biases.clear();
    spec.normalizer = SoftmaxNormalizer{};
    for (TransformSpec& transform : spec.transforms) {
      if (auto* rotary = std::get_if<RotaryTransform>(&transform)) {
        rotary->key_positions.reset();
      }
    }
    return NamedInputs(spec);
  }

  // Of a tensor over the keys. One that is as long as a part would fit there.
  absl::Status CheckInput(absl::string_view field, uint32_t input) const {
    if (input >= whole_.args.inputs.size()) {
      return FieldError(
          field, absl::StrCat("input ", input),
          absl::StrCat("one of the call's ", whole_.args.inputs.size()));
    }
    const Shape& shape = whole_.args.inputs[input].shape;
    const int last = shape.rank() - 1;
    if (last < 0 || shape[last] == 1 || shape[last] == keys_) {
      return absl::OkStatus();
    }
    return FieldError(
        field, absl::StrCat("inputs[", input, "] of shape ", shape.ToString()),
        absl::StrCat("1 or ", keys_, " at the end"));
  }

  absl::Status ShiftTransforms() {
    for (size_t i = 0; i < shard_.spec.transforms.size(); ++i) {
      auto* rotary = std::get_if<RotaryTransform>(&shard_.spec.transforms[i]);
      if (rotary == nullptr || rotary->target == TransformTarget::kQuery) {
        continue;
      }
      const std::string field = absl::StrCat("spec.transforms[", i, "]");
      if (rotary->cos.has_value() || rotary->sin.has_value()) {
        return Refuse(field, "tables of sines", "angles by position");
      }
      if (!rotary->key_positions.has_value()) {
        rotary->key_offset += range_.begin;
        continue;
      }
      absl::Status known = CheckInput(field, *rotary->key_positions);
      if (!known.ok()) return known;
      rotary->key_positions = SliceInput(*rotary->key_positions);
    }
    return absl::OkStatus();
  }

  absl::Status SliceBiases() {
    for (size_t i = 0; i < shard_.spec.biases.size(); ++i) {
      const std::string field = absl::StrCat("spec.biases[", i, "]");
      BiasSpec& bias = shard_.spec.biases[i];
      if (std::holds_alternative<ConstantBias>(bias)) continue;
      auto* dense = std::get_if<DenseBias>(&bias);
      if (dense == nullptr) {
        return Refuse(field, "a bias by position", "dense or constant");
      }
      absl::Status known = CheckInput(field, dense->input);
      if (!known.ok()) return known;
      dense->input = SliceInput(dense->input);
    }
    return absl::OkStatus();
  }

  // The key position of query 0, as the whole call counts.
  absl::StatusOr<int64_t> FirstPosition(absl::string_view field,
                                        Alignment alignment) const {
    if (!whole_.args.kv_lengths.empty() || !whole_.args.q_lengths.empty()) {
      return Refuse(field, "a mask by position beside lengths", "one of them");
    }
    if (alignment == Alignment::kUnspecified && queries_ != keys_) {
      return FieldError(absl::StrCat(field, ".alignment"), "none",
                        absl::StrCat("one, as there are ", queries_,
                                     " queries and ", keys_, " keys"));
    }
    return alignment == Alignment::kBottomRight ? keys_ - queries_ : 0;
  }

  // k + begin - q between first - left and first + right, as a program about
  // the shard's k; absent: unbounded. No mask: all keys are, for every query.
  std::optional<MaskSpec> Diagonal(int64_t first, std::optional<int64_t> left,
                                   std::optional<int64_t> right) const {
    const int64_t shift = first - range_.begin;
    const int64_t last_key = range_.end - range_.begin - 1;
    std::vector<std::string> bounds;
    if (right.has_value() && last_key > shift + *right) {
      bounds.push_back(absl::StrCat("k - q <= ", shift + *right));
    }
    if (left.has_value() && 1 - queries_ < shift - *left) {
      bounds.push_back(absl::StrCat("k - q >= ", shift - *left));
    }
    if (bounds.empty()) return std::nullopt;
    return ProgramMask{{.source = absl::StrJoin(bounds, " && "), .tables = {}}};
  }

  absl::Status ShiftMasks() {
    shard_.spec.masks.clear();
    for (size_t i = 0; i < whole_.spec.masks.size(); ++i) {
      absl::Status added =
          AddMask(absl::StrCat("spec.masks[", i, "]"), whole_.spec.masks[i]);
      if (!added.ok()) return added;
    }
    return absl::OkStatus();
  }

  absl::Status AddMask(const std::string& field, const MaskSpec& mask) {
    if (const auto* dense = std::get_if<DenseMask>(&mask)) {
      absl::Status known = CheckInput(field, dense->input);
      if (!known.ok()) return known;
      shard_.spec.masks.emplace_back(
          DenseMask{.input = SliceInput(dense->input)});
      return absl::OkStatus();
    }
    const auto* causal = std::get_if<CausalMask>(&mask);
    const auto* window = std::get_if<WindowMask>(&mask);
    if (causal == nullptr && window == nullptr) {
      return Refuse(field, "another mask", "causal, window or dense");
    }
    if (window != nullptr &&
        std::min(window->left.value_or(0), window->right.value_or(0)) < 0) {
      return FieldError(absl::StrCat(field, ".window"), "a distance below 0",
                        "distances >= 0, or none for unbounded");
    }
    const auto first = FirstPosition(
        field, causal != nullptr ? causal->alignment : window->alignment);
    if (!first.ok()) return first.status();
    const auto bound = [](std::optional<int64_t> distance) {
      if (distance.has_value()) distance = std::min(*distance, kFarthest);
      return distance;
    };
    auto shifted = causal != nullptr ? Diagonal(*first, std::nullopt, 0)
                                     : Diagonal(*first, bound(window->left),
                                                bound(window->right));
    if (shifted.has_value()) {
      shard_.spec.masks.push_back(*std::move(shifted));
    }
    return absl::OkStatus();
  }

  const AttendMessage& whole_;
  const ShardRange range_;
  const int64_t queries_;
  const int64_t keys_;
  const std::set<uint32_t> whole_inputs_;
  AttendMessage shard_;
};

}  // namespace

std::vector<ShardRange> DivideKeys(int64_t keys, int64_t count) {
  const int64_t steps = (keys + kKeyStep - 1) / kKeyStep;
  const int64_t parts =
      std::clamp<int64_t>(count, 1, std::max<int64_t>(steps, 1));
  std::vector<ShardRange> ranges;
  for (int64_t i = 0; i < parts; ++i) {
    ranges.push_back(
        {.begin = std::min(steps * i / parts * kKeyStep, keys),
         .end = std::min(steps * (i + 1) / parts * kKeyStep, keys)});
  }
  return ranges;
}

absl::StatusOr<AttendMessage> ShardOf(const AttendMessage& message,
                                      ShardRange range) {
  const AttentionArgs& args = message.args;
  if (message.packed() || args.ragged() ||
      message.spec.projections.has_value()) {
    return Refuse(message.packed() ? "qkv"
                  : args.ragged()  ? "kv_offsets"
                                   : "spec.projections",
                  "tokens of all heads together",
                  "q, k and v of [batch, heads, tokens, features]");
  }
  for (const auto& [field, view] :
       {std::pair("q", &args.q), std::pair("k", &args.k),
        std::pair("v", &args.v)}) {
    if (view->shape.rank() == 4) continue;
    return FieldError(absl::StrCat(field, ".shape"), view->shape.ToString(),
                      "[batch, heads, tokens, features]");
  }
  const int64_t keys = args.k.shape[2];
  if (args.v.shape[2] != keys) {
    return FieldError("v.shape", args.v.shape.ToString(),
                      absl::StrCat(keys, " tokens, as k has"));
  }
  if (range.begin < 0 || range.begin > range.end || range.end > keys) {
    return FieldError("range",
                      absl::StrCat("[", range.begin, ", ", range.end, ")"),
                      absl::StrCat("a part of [0, ", keys, ")"));
  }
  return Sharder(message, range).Make();
}

}  // namespace attn
