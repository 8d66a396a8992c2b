#include "client/cli/check/mask_params.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/band.h"
#include "client/cli/check/mask_patterns.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

// "top_left", "bottom_right", "bottom_right per sequence: ...".
absl::StatusOr<std::vector<int64_t>> OffsetsFor(const json& align,
                                                const ServiceCall& call) {
  const std::string text = align.is_string() ? align.get<std::string>() : "";
  if (absl::StartsWith(text, "bottom_right")) return BottomRightOffsets(call);
  if (absl::StartsWith(text, "top_left")) {
    return std::vector<int64_t>(static_cast<size_t>(call.batch()), 0);
  }
  return Skip(absl::StrCat("mask alignment ", align.dump()));
}

absl::Status AddCausalMask(const json& align, ServiceCall& call) {
  auto offsets = OffsetsFor(align, call);
  if (!offsets.ok()) return offsets.status();
  AddBand({.left = std::nullopt,
           .right = 0,
           .sinks = 0,
           .offsets = *std::move(offsets)},
          call);
  return absl::OkStatus();
}

absl::Status ApplyCausal(const json& mask, ServiceCall& call) {
  return AddCausalMask(mask.value("align", json()), call);
}

// Comes as an input.
absl::Status ApplyNothing(const json& /*mask*/, ServiceCall& /*call*/) {
  return absl::OkStatus();
}

absl::Status ApplyLengths(const json& lengths, std::vector<int64_t>& target) {
  auto integers = Integers(lengths);
  if (!integers.ok()) return integers.status();
  target = *std::move(integers);
  return absl::OkStatus();
}

absl::Status ApplyVarlen(const json& mask, ServiceCall& call) {
  absl::Status status =
      ApplyLengths(mask.value("q_lens", json()), call.q_lengths);
  if (status.ok()) {
    status = ApplyLengths(mask.value("kv_lens", json()), call.kv_lengths);
  }
  if (!status.ok() || mask.value("causal", json()).is_null()) return status;
  // Bottom right of each sequence's own queries, not of the padded ones.
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b < call.batch(); ++b) {
    offsets.push_back(call.kv_length(b) -
                      call.q_lengths[static_cast<size_t>(b)]);
  }
  AddBand({.left = std::nullopt,
           .right = 0,
           .sinks = 0,
           .offsets = std::move(offsets)},
          call);
  return absl::OkStatus();
}

absl::Status ApplyLeftPadding(const json& mask, ServiceCall& call) {
  const auto pads = Integers(mask.value("left_pad", json()));
  if (!pads.ok()) return pads.status();
  HostTensor keep(DType::kBool, Shape{static_cast<int64_t>(pads->size()), 1, 1,
                                      call.kv_length()});
  int64_t at = 0;
  for (const int64_t pad : *pads) {
    for (int64_t j = 0; j < call.kv_length(); ++j, ++at) {
      keep.Set(at, j >= pad ? 1 : 0);
    }
  }
  call.AddMask(std::move(keep));
  return AddCausalMask("top_left", call);
}

struct MaskKindRow {
  const char* kind;
  absl::Status (*apply)(const json& mask, ServiceCall& call);
};

constexpr MaskKindRow kMaskKinds[] = {
    {"causal", ApplyCausal},      {"window", ApplyWindow},
    {"dense_bool", ApplyNothing}, {"key_padding", ApplyNothing},
    {"varlen", ApplyVarlen},      {"left_padding+causal", ApplyLeftPadding},
};

absl::Status ApplyMaskKind(const Case& tested, const json& mask,
                           ServiceCall& call) {
  const std::string kind = mask["kind"].is_string() ? mask["kind"] : "?";
  for (const MaskKindRow& row : kMaskKinds) {
    if (kind == row.kind) return row.apply(mask, call);
  }
  return ApplyPattern(tested, mask, call);
}

// Parts of the second spelling that come as inputs or are words.
bool IsCovered(const std::string& key) {
  return key == "kv_lens" || key == "dense_bool" || key == "segment" ||
         key == "align_note" || key == "true_means";
}

absl::Status ApplyParts(const json& mask, ServiceCall& call) {
  // First, for the others' diagonals depend on it.
  if (mask.contains("kv_lens") && !mask["kv_lens"].is_null()) {
    absl::Status status = ApplyLengths(mask["kv_lens"], call.kv_lengths);
    if (!status.ok()) return status;
  }
  for (const auto& [key, value] : mask.items()) {
    if (value.is_null() || IsCovered(key)) continue;
    absl::Status status = Skip(absl::StrCat("mask ", key));
    if (key == "causal") status = AddCausalMask(value, call);
    if (key == "window") status = ApplyWindow(value, call);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// [S] or [B, S].
bool AreSegments(const HostTensor& segments, int64_t batch, int64_t length) {
  const Shape& shape = segments.shape();
  return shape == Shape{length} || shape == Shape{batch, length};
}

absl::Status ApplySegments(const HostTensor& q, const HostTensor& kv,
                           ServiceCall& call) {
  if (!AreSegments(q, call.batch(), call.q_length()) ||
      !AreSegments(kv, call.batch(), call.kv_length())) {
    return Skip("segments of another shape than [S] or [B, S]");
  }
  const uint32_t q_segments = call.AddInput(q.To(DType::kI64));
  call.spec.masks.emplace_back(
      SegmentMask{.q_segments = q_segments,
                  .kv_segments = call.AddInput(kv.To(DType::kI64))});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> WindowReach(const json& window,
                                                   const char* key) {
  const json value = window.value(key, json());
  if (value.is_null()) return std::optional<int64_t>();
  if (!value.is_number_integer()) {
    return Skip(absl::StrCat("window ", key, " ", value.dump()));
  }
  return std::optional<int64_t>(value.get<int64_t>());
}

}  // namespace

absl::Status ApplyWindow(const json& window, ServiceCall& call) {
  const auto left = WindowReach(window, "left");
  if (!left.ok()) return left.status();
  const auto right = WindowReach(window, "right");
  if (!right.ok()) return right.status();
  const auto sinks = WindowReach(window, "sink_tokens");
  if (!sinks.ok()) return sinks.status();
  auto offsets = OffsetsFor(window.value("align", json()), call);
  if (!offsets.ok()) return offsets.status();
  AddBand({.left = *left,
           .right = *right,
           .sinks = sinks->value_or(0),
           .offsets = *std::move(offsets)},
          call);
  return absl::OkStatus();
}

absl::Status ApplyMask(const Case& tested, const json& mask,
                       ServiceCall& call) {
  if (mask.is_null()) return absl::OkStatus();
  if (!mask.is_object()) return Skip(absl::StrCat("mask ", mask.dump()));
  return mask.contains("kind") ? ApplyMaskKind(tested, mask, call)
                               : ApplyParts(mask, call);
}

absl::Status ApplyMaskInputs(const Case& tested, ServiceCall& call) {
  if (const auto mask = tested.inputs.find("mask");
      mask != tested.inputs.end()) {
    call.AddMask(mask->second.To(DType::kBool));
  }
  if (const auto keys = tested.inputs.find("key_mask");
      keys != tested.inputs.end()) {
    const HostTensor& mask = keys->second;
    auto lifted = Reshaped(
        mask.To(DType::kBool),
        Shape{mask.element_count() / call.kv_length(), 1, 1, call.kv_length()});
    if (!lifted.ok()) return lifted.status();
    call.AddMask(*std::move(lifted));
  }
  const auto seg_q = tested.inputs.find("seg_q");
  const auto seg_k = tested.inputs.find("seg_k");
  if (seg_q == tested.inputs.end() || seg_k == tested.inputs.end()) {
    return absl::OkStatus();
  }
  return ApplySegments(seg_q->second, seg_k->second, call);
}

}  // namespace attn
