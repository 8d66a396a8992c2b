#include "tests/bench/bench_call.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/core/half.h"

namespace attn {
namespace {

constexpr int64_t kWindow = 256;
constexpr int64_t kTopK = 64;
// 3 deviations of a normal value reach 96 of 127 steps.
constexpr float kQuantizationStep = 1.0F / 32;

// Normal values, repeated: a table is filled once and read out of step.
const std::vector<float>& NormalTable() {
  static const std::vector<float> kTable = [] {
    std::vector<float> table(1 << 16);
    std::mt19937 generator(0);
    std::normal_distribution<float> normal;
    for (float& value : table) value = normal(generator);
    return table;
  }();
  return kTable;
}

void Store(DType dtype, float value, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
  } else if (dtype == DType::kI8) {
    const float steps = std::round(value / kQuantizationStep);
    *reinterpret_cast<int8_t*>(to) =
        static_cast<int8_t>(std::clamp(steps, -127.0F, 127.0F));
  } else {
    const uint16_t bits = dtype == DType::kBF16 ? ToBF16(value) : ToF16(value);
    std::memcpy(to, &bits, sizeof(bits));
  }
}

absl::StatusOr<DType> DTypeOfName(const std::string& name) {
  if (name == "f32") return DType::kF32;
  if (name == "f16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  if (name == "i8") return DType::kI8;
  return absl::InvalidArgumentError(absl::StrCat("no element type ", name));
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

// Sequences one after the other: offsets of their rows.
std::vector<int64_t> OffsetsOf(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : lengths) {
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchCall>> BenchCall::Create(
    Engine& engine, const BenchShape& shape, const std::string& dtype,
    const std::string& kernel) {
  const absl::StatusOr<DType> kv_dtype = DTypeOfName(dtype);
  if (!kv_dtype.ok()) return kv_dtype.status();
  const DType q_dtype = *kv_dtype == DType::kI8 ? DType::kF32 : *kv_dtype;
  std::unique_ptr<BenchCall> call(new BenchCall(engine, shape));
  absl::Status status = call->FillInputs(q_dtype, *kv_dtype);
  if (status.ok()) status = call->SetMode();
  if (status.ok()) {
    status = call->backward() ? call->PlanGradients()
                              : call->MakePlan(q_dtype, kernel);
  }
  if (!status.ok()) return status;
  return call;
}

void BenchCall::Run() {
  Check(backward()
            ? engine_.RunBackward(plan_, args_, cotangents_, gradients_).status
            : engine_.Run(plan_, args_, outputs_).status);
}

absl::Status BenchCall::FillInputs(DType dtype, DType kv_dtype) {
  const AttentionShape& s = shape_.shape;
  if (shape_.mode == "ragged") {
    args_.q_offsets = OffsetsOf(shape_.Lengths());
    args_.kv_offsets = args_.q_offsets;
    const int64_t rows = args_.q_offsets.back();
    args_.q = Normal(dtype, {rows, s.q_heads, s.q_dim});
    args_.k = Normal(kv_dtype, {rows, s.kv_heads, s.k_dim});
    args_.v = Normal(kv_dtype, {rows, s.kv_heads, s.v_dim});
    return absl::OkStatus();
  }
  args_.q = Normal(dtype, {s.batch, s.q_heads, s.q_length, s.q_dim});
  args_.k = Normal(kv_dtype, {s.batch, s.kv_heads, s.kv_length, s.k_dim});
  args_.v = Normal(kv_dtype, {s.batch, s.kv_heads, s.kv_length, s.v_dim});
  args_.q_lengths = shape_.Lengths();
  args_.kv_lengths = args_.q_lengths;
  if (kv_dtype == DType::kI8) {
    const auto scales = static_cast<uint32_t>(args_.inputs.size());
    args_.inputs.push_back(Filled(kQuantizationStep, {s.kv_heads}));
    args_.inputs.push_back(Filled(kQuantizationStep, {s.kv_heads}));
    spec_.kv_quantization = {QuantizationGranularity::kPerHead, scales,
                             scales + 1};
  }
  return absl::OkStatus();
}

absl::Status BenchCall::SetMode() {
  const std::string& mode = shape_.mode;
  const AttentionShape& s = shape_.shape;
  if (mode == "causal") {
    spec_.masks = {CausalMask{Alignment::kBottomRight}};
  } else if (mode == "window") {
    spec_.masks = {WindowMask{kWindow - 1, 0, Alignment::kBottomRight}};
  } else if (mode == "bias") {
    spec_.biases = {DenseBias{static_cast<uint32_t>(args_.inputs.size())}};
    args_.inputs.push_back(
        Normal(args_.q.dtype, {s.batch, s.q_heads, s.q_length, s.kv_length}));
  } else if (mode == "sparsemax") {
    spec_.normalizer = SparsemaxNormalizer{};
  } else if (mode == "entmax") {
    spec_.normalizer = EntmaxNormalizer{1.5, std::nullopt};
  } else if (mode == "topk") {
    spec_.sparsifiers = {TopKSparsifier{.k = kTopK}};
  } else if (mode == "linear") {
    spec_.normalizer = LinearNormalizer{};
  } else if (mode == "statistics" || mode == "moments") {
    wanted_.statistics = mode == "moments";
    outputs_.lse = Empty(DType::kF32, {s.batch, s.q_heads, s.q_length});
  } else if (mode != "none" && mode != "memory" && mode != "pad" &&
             mode != "ragged" && mode != "backward") {
    return absl::InvalidArgumentError(absl::StrCat("no mode ", mode));
  }
  return absl::OkStatus();
}

absl::Status BenchCall::MakePlan(DType dtype, const std::string& kernel) {
  auto plan = engine_.Plan(spec_, args_, wanted_, dtype, kernel);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  Shape shape = plan_->problem.OutputShape();
  if (args_.ragged()) {
    shape = {args_.q_offsets.back(), shape_.shape.q_heads, shape_.shape.v_dim};
  }
  outputs_.output = Empty(dtype, shape);
  return absl::OkStatus();
}

absl::Status BenchCall::PlanGradients() {
  cotangents_.output = Normal(args_.q.dtype, args_.q.shape);
  gradients_.q = Empty(DType::kF32, args_.q.shape);
  gradients_.k = Empty(DType::kF32, args_.k.shape);
  gradients_.v = Empty(DType::kF32, args_.v.shape);
  GradientSelection wanted;
  wanted.from_output = true;
  wanted.q = true;
  wanted.k = true;
  wanted.v = true;
  auto plan = engine_.PlanBackward(spec_, args_, cotangents_, wanted);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

TensorView BenchCall::Normal(DType dtype, const Shape& shape) {
  const MutableTensorView view = Empty(dtype, shape);
  const std::vector<float>& table = NormalTable();
  // Each tensor begins elsewhere; 7 and the table's length have no divisor in
  // common.
  size_t next = memory_.size() * 997;
  const size_t bytes = SizeOf(dtype);
  for (int64_t i = 0; i < shape.element_count(); ++i, next += 7) {
    Store(dtype, table[next % table.size()],
          view.data + static_cast<size_t>(i) * bytes);
  }
  return TensorView::Dense(view.data, dtype, shape);
}

TensorView BenchCall::Filled(float value, const Shape& shape) {
  const MutableTensorView view = Empty(DType::kF32, shape);
  std::fill_n(reinterpret_cast<float*>(view.data), shape.element_count(),
              value);
  return TensorView::Dense(view.data, DType::kF32, shape);
}

MutableTensorView BenchCall::Empty(DType dtype, const Shape& shape) {
  memory_.emplace_back(static_cast<size_t>(shape.element_count()) *
                       SizeOf(dtype));
  return MutableTensorView::Dense(memory_.back().data(), dtype, shape);
}

}  // namespace attn
