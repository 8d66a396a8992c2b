#include "server/rpc/session_settings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cache/step_spec.h"
#include "engine/core/field_error.h"
#include "proto/codec/session_codec.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

constexpr int kMaxSessionHeads = 1 << 16;
constexpr int kMaxSessionWidth = 1 << 16;

// A whole number of [1, most]; 0 stands for `preset`, if there is one.
absl::StatusOr<int64_t> Extent(int64_t value, absl::string_view field,
                               int64_t most, int64_t preset = 0) {
  if (value == 0 && preset > 0) return preset;
  if (value >= 1 && value <= most) return value;
  return FieldError(field, absl::StrCat(value), absl::StrCat("1 to ", most));
}

absl::StatusOr<DType> KeptType(v1::DataType wire) {
  if (wire == v1::DATA_TYPE_UNSPECIFIED) return DType::kF32;
  auto dtype = DecodeDType(wire, "kv_dtype");
  if (!dtype.ok()) return dtype;
  switch (*dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI8:
      return dtype;
    default:
      return FieldError("kv_dtype", Name(*dtype), "F32, F16, BF16 or I8");
  }
}

absl::Status ReadExtents(const v1::OpenSessionRequest& request,
                         SessionSettings& settings) {
  const auto layers = Extent(request.layers(), "layers", kMaxSessionLayers, 1);
  const auto q_heads = Extent(request.q_heads(), "q_heads", kMaxSessionHeads);
  if (!layers.ok()) return layers.status();
  if (!q_heads.ok()) return q_heads.status();
  const auto kv_heads =
      Extent(request.kv_heads(), "kv_heads", *q_heads, *q_heads);
  const auto q_dim = Extent(request.q_dim(), "q_dim", kMaxSessionWidth);
  if (!kv_heads.ok()) return kv_heads.status();
  if (!q_dim.ok()) return q_dim.status();
  if (*q_heads % *kv_heads != 0) {
    return FieldError("kv_heads", absl::StrCat(*kv_heads),
                      absl::StrCat("a divisor of q_heads, ", *q_heads));
  }
  const auto k_dim = Extent(request.k_dim(), "k_dim", kMaxSessionWidth, *q_dim);
  if (!k_dim.ok()) return k_dim.status();
  const auto v_dim = Extent(request.v_dim(), "v_dim", kMaxSessionWidth, *k_dim);
  if (!v_dim.ok()) return v_dim.status();
  const auto dtype = KeptType(request.kv_dtype());
  if (!dtype.ok()) return dtype.status();
  settings.layers = static_cast<int>(*layers);
  settings.q_heads = *q_heads;
  settings.q_dim = *q_dim;
  settings.layout = {
      .kv_heads = *kv_heads, .k_dim = *k_dim, .v_dim = *v_dim, .dtype = *dtype};
  return absl::OkStatus();
}

absl::Status ReadBounds(const v1::OpenSessionRequest& request,
                        absl::Duration most_idle, SessionSettings& settings) {
  constexpr int64_t kMostTokens = int64_t{1} << 31;
  if (request.max_tokens() < 0 || request.max_tokens() > kMostTokens) {
    return FieldError("max_tokens", absl::StrCat(request.max_tokens()),
                      absl::StrCat("0 to ", kMostTokens));
  }
  settings.max_tokens = request.max_tokens();
  const absl::Duration idle = absl::Milliseconds(request.idle_timeout_ms());
  if (request.idle_timeout_ms() < 0 || idle > most_idle) {
    return FieldError(
        "idle_timeout_ms", absl::StrCat(request.idle_timeout_ms()),
        absl::StrCat("0 to ", absl::ToInt64Milliseconds(most_idle),
                     ", the server's --session-idle-timeout"));
  }
  settings.idle_timeout = request.idle_timeout_ms() == 0 ? most_idle : idle;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorView>> TakeInputs(
    v1::OpenSessionRequest& request, SessionSettings& settings) {
  std::vector<TensorView> inputs;
  for (int i = 0; i < request.inputs_size(); ++i) {
    v1::Tensor& sent = *request.mutable_inputs(i);
    WireTensor tensor;
    tensor.name = absl::StrCat("inputs[", i, "]");
    tensor.data = AlignedBuffer(sent.data().size());
    std::copy_n(reinterpret_cast<const std::byte*>(sent.data().data()),
                sent.data().size(), tensor.data.data());
    sent.clear_data();
    tensor.metadata = std::move(sent);
    auto view = DecodeTensor(tensor);
    if (!view.ok()) return view.status();
    inputs.push_back(*std::move(view));
    settings.storage.push_back(std::move(tensor.data));
  }
  return inputs;
}

// A spec whose inputs follow the length fits one of two lengths at most.
absl::Status PlanTwoSteps(SessionSettings& settings, Engine& engine) {
  for (const int64_t position : {int64_t{0}, int64_t{1}}) {
    AttentionArgs args = settings.steps->Args(position + 1);
    args.q = TensorView::Dense(nullptr, DType::kF32,
                               {1, settings.q_heads, 1, settings.q_dim});
    OutputSelection wanted;
    const auto plan =
        engine.Plan(settings.steps->At(position), args, wanted, DType::kF32);
    if (!plan.ok()) return plan.status();
    absl::Status values = Engine::CheckValues(**plan, args);
    if (!values.ok()) return values;
    settings.pipeline = (*plan)->pipeline;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<SessionSettings>> MakeSessionSettings(
    v1::OpenSessionRequest& request, Engine& engine, absl::Duration most_idle) {
  auto settings = std::make_shared<SessionSettings>();
  absl::Status status = ReadExtents(request, *settings);
  if (status.ok()) status = ReadBounds(request, most_idle, *settings);
  if (!status.ok()) return status;
  auto spec = DecodeSpec(request.spec());
  if (!spec.ok()) return spec.status();
  auto inputs = TakeInputs(request, *settings);
  if (!inputs.ok()) return inputs.status();
  auto steps =
      StepSpec::Make(*std::move(spec), *std::move(inputs), settings->layout,
                     settings->q_heads, settings->q_dim);
  if (!steps.ok()) return steps.status();
  settings->steps = std::make_shared<const StepSpec>(*std::move(steps));
  // A table of angles that ends before max_tokens is told now, not then.
  status = settings->steps->CheckReach(settings->max_tokens);
  if (status.ok()) status = PlanTwoSteps(*settings, engine);
  if (!status.ok()) return status;
  return settings;
}

}  // namespace attn
