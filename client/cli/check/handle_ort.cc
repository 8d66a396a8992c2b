// com.microsoft MultiHeadAttention and GroupQueryAttention: heads packed into
// the last axis, a cache before the new keys.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/check/handlers.h"
#include "client/cli/check/mask_params.h"
#include "client/cli/check/tensor_ops.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

using nlohmann::json;

absl::StatusOr<HostTensor> Packed(const Case& tested, const char* name,
                                  int64_t heads) {
  const auto found = tested.inputs.find(name);
  if (found == tested.inputs.end()) {
    return Skip(absl::StrCat("a case without ", name));
  }
  return SplitHeads(found->second, heads);
}

absl::Status ReadOrtTensors(const Case& tested, int64_t q_heads,
                            int64_t kv_heads, ServiceCall& call) {
  auto q = Packed(tested, "query", q_heads);
  auto k = Packed(tested, "key", kv_heads);
  auto v = Packed(tested, "value", kv_heads);
  for (const auto* tensor : {&q, &k, &v}) {
    if (!tensor->ok()) return tensor->status();
  }
  call.q = *std::move(q);
  call.k = *std::move(k);
  call.v = *std::move(v);
  return absl::OkStatus();
}

// Scale, softcap and the bias on the logits.
absl::Status ApplyOrtScalars(const Case& tested, ServiceCall& call) {
  const auto scale = NumberFromJson(tested.params.value("scale", json()));
  if (!scale.ok()) return scale.status();
  call.spec.score = DotScore{.scale = *scale, .learned_scale = std::nullopt};
  const double softcap = tested.params.value("softcap", 0.0);
  if (softcap != 0) call.spec.softcap = softcap;
  const auto bias = tested.inputs.find("attention_bias");
  if (bias != tested.inputs.end()) {
    call.AddBias(HostTensor::Copy(bias->second.view()));
  }
  return absl::OkStatus();
}

// The concatenated bias of the projections, which is added to q, k and v before
// attention: the client's part.
absl::Status AddProjectionBias(const Case& tested, ServiceCall& call) {
  const auto found = tested.inputs.find("bias");
  if (found == tested.inputs.end()) return absl::OkStatus();
  int64_t start = 0;
  for (HostTensor* tensor : {&call.q, &call.k, &call.v}) {
    const Shape shape = tensor->shape();
    const int64_t width = shape[1] * shape[3];
    if (start + width > found->second.element_count()) {
      return absl::InvalidArgumentError("bias is too short");
    }
    for (int64_t i = 0; i < tensor->element_count(); ++i) {
      const int64_t head = i / (shape[2] * shape[3]) % shape[1];
      const int64_t at = start + head * shape[3] + i % shape[3];
      tensor->Set(i, tensor->At(i) + found->second.At(at));
    }
    start += width;
  }
  return absl::OkStatus();
}

// Puts the first `valid[b]` cached rows of each batch entry before its new
// ones; what is left over at the end is padding.
absl::Status PrependCache(const HostTensor& past,
                          const std::vector<int64_t>& valid,
                          HostTensor& tensor) {
  HostTensor joined;
  for (int64_t b = 0; b < tensor.shape()[0]; ++b) {
    const int64_t rows = valid[static_cast<size_t>(b)];
    if (rows < 0 || rows > past.shape()[2]) {
      return absl::InvalidArgumentError("past_valid does not fit past_key");
    }
    const HostTensor entry = Slice(past, 0, b, b + 1);
    auto one = Concat(Slice(entry, 2, 0, rows), Slice(tensor, 0, b, b + 1), 2);
    if (one.ok()) {
      one = Concat(*one, Slice(entry, 2, rows, entry.shape()[2]), 2);
    }
    if (one.ok() && b > 0) one = Concat(joined, *one, 0);
    if (!one.ok()) return one.status();
    joined = *std::move(one);
  }
  tensor = std::move(joined);
  return absl::OkStatus();
}

absl::Status PrependCaches(const Case& tested,
                           const std::vector<int64_t>& valid,
                           ServiceCall& call) {
  const auto keys = tested.inputs.find("past_key");
  const auto values = tested.inputs.find("past_value");
  if (keys == tested.inputs.end() || values == tested.inputs.end()) {
    return absl::OkStatus();
  }
  if (valid.size() != static_cast<size_t>(call.batch())) {
    return absl::InvalidArgumentError("past_valid does not fit the batch");
  }
  absl::Status status = PrependCache(keys->second, valid, call.k);
  if (status.ok()) status = PrependCache(values->second, valid, call.v);
  return status;
}

absl::StatusOr<Outcome> Run(const Case& tested, const ServiceCall& call,
                            const Service& service) {
  const auto outputs = service.Attend(call, {"output"});
  if (!outputs.ok()) return outputs.status();
  Outcome outcome;
  outcome.got["output"] = JoinHeads(outputs->at("output"));
  if (tested.outputs.contains("output_ort_float32")) {
    // The same numbers as another implementation rounded them.
    outcome.got["output_ort_float32"] = JoinHeads(outputs->at("output"));
  }
  return outcome;
}

// Null, the input head_sink, or "logit 0 for every head": smooth softmax, which
// is softmax-off-by-one.
absl::Status ApplyOrtSink(const Case& tested, ServiceCall& call) {
  const json sink = tested.params.value("sink", json());
  if (sink.is_null()) return absl::OkStatus();
  const HostTensor* logits = tested.Input("head_sink");
  if (logits != nullptr) {
    call.spec.normalizer = SoftmaxNormalizer{
        .sink = call.AddInput(HostTensor::Copy(logits->view()))};
    return absl::OkStatus();
  }
  const std::string text = sink.is_string() ? sink.get<std::string>() : "";
  if (!absl::StartsWith(text, "logit 0")) {
    return Skip(absl::StrCat("sink ", sink.dump()));
  }
  call.spec.normalizer = SoftmaxPlusNormalizer{.n = 1};
  return absl::OkStatus();
}

// {"interleaved", "positions"} with the angles as inputs. The positions are
// those of the new rows, so that there may be no cache before them.
absl::Status ApplyRotary(const Case& tested, ServiceCall& call) {
  const json rotary = tested.params.value("rotary", json());
  if (rotary.is_null()) return absl::OkStatus();
  const HostTensor* cos = tested.Input("cos_cache");
  const HostTensor* sin = tested.Input("sin_cache");
  if (cos == nullptr || sin == nullptr || tested.HasInput("past_key")) {
    return Skip("rotary positions of a cache");
  }
  const auto positions = Integers(rotary.value("positions", json()));
  if (!positions.ok()) return positions.status();
  auto rows = HostTensor::From<int64_t>(
      Shape{static_cast<int64_t>(positions->size())}, *positions);
  if (!rows.ok()) return rows.status();
  RotaryTransform transform;
  transform.layout = rotary.value("interleaved", false)
                         ? RotaryLayout::kInterleaved
                         : RotaryLayout::kHalfSplit;
  transform.query_positions = call.AddInput(*std::move(rows));
  transform.key_positions = transform.query_positions;
  transform.cos = call.AddInput(HostTensor::Copy(cos->view()));
  transform.sin = call.AddInput(HostTensor::Copy(sin->view()));
  call.spec.transforms.emplace_back(transform);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> HandleOrtGroupQuery(const Case& tested,
                                            const Service& service) {
  ServiceCall call;
  absl::Status status =
      ReadOrtTensors(tested, tested.params.value("num_heads", int64_t{0}),
                     tested.params.value("kv_num_heads", int64_t{0}), call);
  if (status.ok()) status = ApplyOrtSink(tested, call);
  if (status.ok()) status = ApplyRotary(tested, call);
  if (!status.ok()) return status;
  const auto valid = Integers(tested.params.value("past_valid", json()));
  const auto totals = Integers(tested.params.value("total_lens", json()));
  if (!valid.ok()) return valid.status();
  if (!totals.ok()) return totals.status();
  status = PrependCaches(tested, *valid, call);
  if (status.ok()) status = ApplyOrtScalars(tested, call);
  call.kv_lengths = *totals;
  if (status.ok())
    status = ApplyMask(tested, tested.params.value("mask", json()), call);
  if (!status.ok()) return status;
  return Run(tested, call, service);
}

absl::StatusOr<Outcome> HandleOrtMultiHead(const Case& tested,
                                           const Service& service) {
  const auto heads = tested.params.value("num_heads", int64_t{0});
  ServiceCall call;
  absl::Status status = ReadOrtTensors(tested, heads, heads, call);
  if (status.ok()) status = AddProjectionBias(tested, call);
  if (!status.ok()) return status;
  const std::vector<int64_t> valid(
      static_cast<size_t>(call.batch()),
      tested.params.value("past_length", int64_t{0}));
  status = PrependCaches(tested, valid, call);
  if (status.ok()) status = ApplyOrtScalars(tested, call);
  const json lengths = tested.params.value("kv_lens", json());
  if (status.ok() && !lengths.is_null()) {
    auto integers = Integers(lengths);
    if (!integers.ok()) return integers.status();
    call.kv_lengths = *std::move(integers);
  }
  if (status.ok())
    status = ApplyMask(tested, tested.params.value("mask", json()), call);
  if (!status.ok()) return status;
  return Run(tested, call, service);
}

}  // namespace attn
