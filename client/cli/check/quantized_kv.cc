#include "client/cli/check/quantized_kv.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

using nlohmann::json;

// What the service's shape of scales keeps of the case's [B, Hkv, Sk, 1], some
// of whose extents are 1.
struct GranularityRow {
  const char* name;
  QuantizationGranularity granularity;
  int first_axis;
  int axes;
};

constexpr GranularityRow kGranularities[] = {
    {"per_tensor", QuantizationGranularity::kPerTensor, 0, 1},
    {"per_head", QuantizationGranularity::kPerHead, 1, 1},
    {"per_token", QuantizationGranularity::kPerToken, 0, 3},
};

absl::StatusOr<uint32_t> AddScale(const Case& tested, const char* name,
                                  const GranularityRow& row,
                                  ServiceCall& call) {
  const HostTensor* scale = tested.Input(name);
  if (scale == nullptr) return Skip(absl::StrCat("a case without ", name));
  const auto dims = scale->shape().dims().subspan(
      static_cast<size_t>(row.first_axis), static_cast<size_t>(row.axes));
  auto shape = Shape::Create(dims, sizeof(float), name);
  if (!shape.ok()) return shape.status();
  auto shaped = Reshaped(*scale, *shape);
  if (!shaped.ok()) return shaped.status();
  return call.AddInput(*std::move(shaped));
}

}  // namespace

absl::Status ApplyKvQuantization(const Case& tested, const json& kv_quant,
                                 ServiceCall& call) {
  const std::string name = kv_quant.value("scales", "");
  for (const GranularityRow& row : kGranularities) {
    if (name != row.name) continue;
    const auto key = AddScale(tested, "k_scale", row, call);
    if (!key.ok()) return key.status();
    const auto value = AddScale(tested, "v_scale", row, call);
    if (!value.ok()) return value.status();
    call.spec.kv_quantization = KvQuantization{row.granularity, *key, *value};
    return absl::OkStatus();
  }
  return Skip(absl::StrCat("scales ", name));
}

}  // namespace attn
