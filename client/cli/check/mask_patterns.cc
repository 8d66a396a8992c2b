#include "client/cli/check/mask_patterns.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

absl::StatusOr<int64_t> Integer(const json& mask, const char* key) {
  if (mask.contains(key) && mask[key].is_number_integer()) {
    return mask[key].get<int64_t>();
  }
  return Skip(absl::StrCat("a mask without ", key));
}

// Several of them, in order.
absl::StatusOr<std::vector<int64_t>> AllOf(
    const json& mask, const std::vector<const char*>& keys) {
  std::vector<int64_t> values;
  for (const char* key : keys) {
    const auto value = Integer(mask, key);
    if (!value.ok()) return value.status();
    values.push_back(*value);
  }
  return values;
}

void AddCausal(ServiceCall& call) {
  call.spec.masks.emplace_back(CausalMask{.alignment = Alignment::kTopLeft});
}

void AddProgram(std::string source, ServiceCall& call) {
  ProgramMask mask;
  mask.program.source = std::move(source);
  call.spec.masks.emplace_back(std::move(mask));
}

absl::Status ApplyDilated(const Case& /*tested*/, const json& mask,
                          ServiceCall& call) {
  const auto values = AllOf(mask, {"dilation", "radius"});
  if (!values.ok()) return values.status();
  call.spec.masks.emplace_back(DilatedMask{.dilation = (*values)[0],
                                           .radius = (*values)[1],
                                           .alignment = Alignment::kTopLeft});
  return absl::OkStatus();
}

absl::Status ApplyLongformer(const Case& /*tested*/, const json& mask,
                             ServiceCall& call) {
  const auto radius = Integer(mask, "radius");
  if (!radius.ok()) return radius.status();
  auto tokens = Integers(mask.value("global_tokens", json()));
  if (!tokens.ok()) return tokens.status();
  call.spec.masks.emplace_back(
      LongformerMask{.radius = *radius,
                     .global_tokens = *std::move(tokens),
                     .alignment = Alignment::kTopLeft});
  return absl::OkStatus();
}

absl::Status ApplyPrefix(const Case& /*tested*/, const json& mask,
                         ServiceCall& call) {
  const auto prefix = Integer(mask, "prefix");
  if (!prefix.ok()) return prefix.status();
  call.spec.masks.emplace_back(
      PrefixMask{.prefix = {*prefix}, .alignment = Alignment::kTopLeft});
  return absl::OkStatus();
}

// The document of each token; offsets are where documents begin and end.
absl::StatusOr<HostTensor> Documents(const json& mask, int64_t length) {
  const auto offsets = Integers(mask.value("offsets", json()));
  if (!offsets.ok()) return offsets.status();
  HostTensor documents(DType::kI64, Shape{length});
  for (int64_t i = 0; i < length; ++i) {
    int64_t document = -1;
    for (const int64_t offset : *offsets) document += offset <= i ? 1 : 0;
    documents.Set(i, static_cast<double>(document));
  }
  return documents;
}

absl::Status ApplyDocument(const Case& /*tested*/, const json& mask,
                           ServiceCall& call) {
  auto documents = Documents(mask, call.kv_length());
  if (!documents.ok()) return documents.status();
  const uint32_t input = call.AddInput(*std::move(documents));
  call.spec.masks.emplace_back(
      SegmentMask{.q_segments = input, .kv_segments = input});
  if (mask.value("causal", false)) AddCausal(call);
  return absl::OkStatus();
}

// Causal in the own document and in the one that it continues.
absl::Status ApplySharedPrefix(const Case& /*tested*/, const json& mask,
                               ServiceCall& call) {
  auto documents = Documents(mask, call.kv_length());
  if (!documents.ok()) return documents.status();
  const auto prefixes = Integers(mask.value("prefix_document", json()));
  if (!prefixes.ok()) return prefixes.status();
  HostTensor continued = Map(*documents, DType::kI64, [&](double document) {
    const auto at = static_cast<size_t>(document);
    return at < prefixes->size() ? static_cast<double>((*prefixes)[at]) : -1;
  });
  const uint32_t own = call.AddInput(*std::move(documents));
  const uint32_t prefix = call.AddInput(std::move(continued));
  AnyOfMask either;
  either.masks = {SegmentMask{.q_segments = own, .kv_segments = own},
                  SegmentMask{.q_segments = prefix, .kv_segments = own}};
  call.spec.masks.emplace_back(std::move(either));
  AddCausal(call);
  return absl::OkStatus();
}

absl::Status ApplyBlockSparse(const Case& tested, const json& mask,
                              ServiceCall& call) {
  const auto block = Integer(mask, "block");
  if (!block.ok()) return block.status();
  const HostTensor* layout = tested.Input("block_layout");
  if (layout == nullptr) return Skip("a block mask without its layout");
  call.spec.masks.emplace_back(
      BlockSparseMask{.layout = call.AddInput(layout->To(DType::kBool)),
                      .q_block = *block,
                      .kv_block = *block});
  if (mask.value("token_causal_inside", false)) AddCausal(call);
  return absl::OkStatus();
}

// A window of kernel_w x kernel_h around a centre that is held inside of the
// canvas; token = x * canvas_w + y.
absl::Status ApplyNeighbours(const Case& /*tested*/, const json& mask,
                             ServiceCall& call) {
  const auto sizes =
      AllOf(mask, {"canvas_w", "canvas_h", "kernel_w", "kernel_h"});
  if (!sizes.ok()) return sizes.status();
  const int64_t width = (*sizes)[0];
  const int64_t reach_x = (*sizes)[2] / 2;
  const int64_t reach_y = (*sizes)[3] / 2;
  AddProgram(absl::StrCat("abs(clamp(floor(q / ", width, "), ", reach_x, ", ",
                          width - 1 - reach_x, ") - floor(k / ", width,
                          ")) <= ", reach_x, " && abs(clamp(q % ", width, ", ",
                          reach_y, ", ", (*sizes)[1] - 1 - reach_y, ") - k % ",
                          width, ") <= ", reach_y),
             call);
  return absl::OkStatus();
}

// Noised tokens, then clean ones: a noised block sees itself and the clean
// blocks before it, a clean one itself and those before it.
absl::Status ApplyBlockDiffusion(const Case& /*tested*/, const json& mask,
                                 ServiceCall& call) {
  const auto sizes = AllOf(mask, {"seq_len", "block"});
  if (!sizes.ok()) return sizes.status();
  const int64_t n = (*sizes)[0];
  const auto block_of = [&](const char* token) {
    return absl::StrCat("floor(", token, " % ", n, " / ", (*sizes)[1], ")");
  };
  const std::string q = block_of("q");
  const std::string k = block_of("k");
  AddProgram(absl::StrCat("(q < ", n, " && k < ", n, " && ", q, " == ", k,
                          ") || (k >= ", n, " && (q < ", n, " && ", q, " > ", k,
                          " || q >= ", n, " && ", q, " >= ", k, "))"),
             call);
  return absl::OkStatus();
}

struct KindRow {
  const char* kind;
  absl::Status (*apply)(const Case& tested, const json& mask,
                        ServiceCall& call);
};

constexpr KindRow kKinds[] = {
    {"dilated_window", ApplyDilated},
    {"global_window", ApplyLongformer},
    {"prefix_lm", ApplyPrefix},
    {"document", ApplyDocument},
    {"shared_prefix", ApplySharedPrefix},
    {"block_sparse", ApplyBlockSparse},
    {"natten2d", ApplyNeighbours},
    {"block_diffusion", ApplyBlockDiffusion},
};

}  // namespace

absl::Status ApplyPattern(const Case& tested, const json& mask,
                          ServiceCall& call) {
  const std::string kind = mask["kind"].is_string() ? mask["kind"] : "?";
  for (const KindRow& row : kKinds) {
    if (kind == row.kind) return row.apply(tested, mask, call);
  }
  return Skip(absl::StrCat("mask ", kind));
}

}  // namespace attn
