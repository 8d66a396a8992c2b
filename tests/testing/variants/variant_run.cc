#include "tests/testing/variants/variant_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/core/aligned_buffer.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/pipeline.h"
#include "tests/testing/small_float.h"

namespace attn::testing {
namespace {

double Read(const std::byte* from, DType dtype) {
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kF16:
      return oracle::Decode(as(uint16_t{}), oracle::kBinary16);
    case DType::kBF16:
      return oracle::Decode(as(uint16_t{}), oracle::kBFloat16);
    case DType::kF64:
      return as(double{});
    default:
      return static_cast<double>(as(float{}));
  }
}

void Write(double value, DType dtype, std::byte* to) {
  const auto put = [to](auto bits) { std::memcpy(to, &bits, sizeof(bits)); };
  switch (dtype) {
    case DType::kF16:
      return put(oracle::Encode(value, oracle::kBinary16));
    case DType::kBF16:
      return put(oracle::Encode(value, oracle::kBFloat16));
    case DType::kF64:
      return put(value);
    case DType::kBool:
      return put(static_cast<uint8_t>(value != 0));
    case DType::kI8:
      return put(static_cast<int8_t>(value));
    case DType::kI32:
      return put(static_cast<int32_t>(value));
    case DType::kI64:
      return put(static_cast<int64_t>(value));
    default:
      return put(static_cast<float>(value));
  }
}

// Memory for one output, all bits set: NaN in every float type.
class Room {
 public:
  Room(DType dtype, const Shape& shape)
      : memory_(static_cast<size_t>(shape.element_count()) * SizeOf(dtype)),
        view_(MutableTensorView::Dense(memory_.data(), dtype, shape)) {
    std::memset(memory_.data(), 0xFF, memory_.size());
  }

  const MutableTensorView& view() const { return view_; }
  std::vector<double> Values() const {
    std::vector<double> values;
    for (size_t at = 0; at < memory_.size(); at += SizeOf(view_.dtype)) {
      values.push_back(Read(memory_.data() + at, view_.dtype));
    }
    return values;
  }

 private:
  AlignedBuffer memory_;
  MutableTensorView view_;
};

Engine& SharedEngine() {
  static Engine& engine = *new Engine({.workers = 2});
  return engine;
}

bool SameBitsOf(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
        if (std::isnan(x)) return std::isnan(y);
        return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
      });
}

std::vector<double> Flatten(const std::vector<RowStatistics>& rows) {
  std::vector<double> all;
  for (const RowStatistics& row : rows) {
    all.insert(all.end(), {row.lse, row.lse_with_sink, row.entropy,
                           row.peak_weight, static_cast<double>(row.top_key),
                           static_cast<double>(row.visible_keys), row.logit_min,
                           row.logit_max});
  }
  return all;
}

}  // namespace

bool VariantOutcome::SameBits(const VariantOutcome& other) const {
  return SameBitsOf(output, other.output) &&
         SameBitsOf(masked_logits, other.masked_logits) &&
         SameBitsOf(weights, other.weights) && SameBitsOf(lse, other.lse) &&
         SameBitsOf(lse_with_sink, other.lse_with_sink) &&
         SameBitsOf(state, other.state) &&
         SameBitsOf(Flatten(rows), Flatten(other.rows));
}

VariantRun::VariantRun(const oracle::VariantCase& call, DType dtype)
    : shape_(call.shape), spec_(call.spec), dtype_(dtype) {
  const AttentionShape& s = shape_;
  args_.q = Store(call.q, {s.batch, s.q_heads, s.q_length, s.q_dim}, dtype);
  args_.k = Store(call.k, {s.batch, s.kv_heads, s.kv_length, s.k_dim}, dtype);
  args_.v = Store(call.v, {s.batch, s.kv_heads, s.kv_length, s.v_dim}, dtype);
  for (const oracle::Parameter& input : call.inputs) {
    const auto shape = Shape::Create(input.shape, sizeof(double), "input");
    args_.inputs.push_back(Store(input.data, *shape, input.dtype));
  }
  args_.q_lengths = call.q_lengths;
  args_.kv_lengths = call.kv_lengths;
}

TensorView VariantRun::Store(const std::vector<double>& values,
                             const Shape& shape, DType dtype) {
  EXPECT_EQ(static_cast<int64_t>(values.size()), shape.element_count());
  const size_t width = SizeOf(dtype);
  storage_.push_back(
      std::make_unique<std::byte[]>((values.size() + 1) * width));
  std::byte* to = storage_.back().get();
  for (size_t i = 0; i < values.size(); ++i) {
    Write(values[i], dtype, to + i * width);
  }
  return TensorView::Dense(to, dtype, shape);
}

OutputSelection VariantRun::Selection(bool rows) const {
  OutputSelection selection;
  selection.masked_logits = rows && !linear();
  selection.weights = rows && !linear();
  selection.state = linear();
  return selection;
}

std::string VariantRun::WhyNot(const std::string& kernel, bool rows) const {
  const auto problem = MakeProblem(spec_, args_, Selection(rows), dtype_, "");
  EXPECT_TRUE(problem.ok()) << problem.status();
  if (!problem.ok()) return "refused";
  const absl::Status stages = ValidateStages(*problem);
  EXPECT_TRUE(stages.ok()) << stages;
  if (!stages.ok()) return "refused";
  for (const Kernel* candidate : KernelTable()) {
    if (kernel == candidate->name()) return candidate->WhyNot(*problem);
  }
  return "unknown";
}

bool VariantRun::AsksForRows(const std::string& kernel, Rows rows) const {
  if (rows != Rows::kWherePossible) return rows == Rows::kAskedFor;
  return WhyNot(kernel, true).empty();
}

std::string VariantRun::WhyNot(const std::string& kernel, Rows rows) const {
  return WhyNot(kernel, AsksForRows(kernel, rows));
}

absl::Status VariantRun::PlanBackward() const {
  const AttentionShape& s = shape_;
  OutputGradients cotangents;
  cotangents.output = TensorView::Dense(
      nullptr, dtype_, {s.batch, s.q_heads, s.q_length, s.v_dim});
  GradientSelection wanted;
  wanted.from_output = wanted.q = wanted.k = wanted.v = true;
  for (size_t i = 0; i < args_.inputs.size(); ++i) {
    if (!IsFloat(args_.inputs[i].dtype)) continue;
    wanted.inputs.push_back(static_cast<uint32_t>(i));
  }
  return SharedEngine().PlanBackward(spec_, args_, cotangents, wanted).status();
}

VariantOutcome VariantRun::Run(const std::string& kernel, Rows rows) const {
  VariantOutcome outcome;
  const OutputSelection selection = Selection(AsksForRows(kernel, rows));
  Engine& engine = SharedEngine();
  const auto plan = engine.Plan(spec_, args_, selection, dtype_, kernel);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return outcome;
  const AttentionShape& s = shape_;
  const DType wide = dtype_ == DType::kF64 ? DType::kF64 : DType::kF32;
  const Shape per_row{s.batch, s.q_heads, s.q_length};
  const Shape per_key{s.batch, s.q_heads, s.q_length, s.kv_length};
  const Room output(dtype_, {s.batch, s.q_heads, s.q_length, s.v_dim});
  const Room lse(wide, per_row);
  const Room lse_with_sink(wide, per_row);
  const Shape per_state{s.batch, s.kv_heads, s.k_dim, s.v_dim};
  const Room masked(wide, selection.masked_logits ? per_key : Shape{0});
  const Room weights(wide, selection.weights ? per_key : Shape{0});
  const Room state(wide, selection.state ? per_state : Shape{0});
  AttentionOutputs outputs;
  outputs.output = output.view();
  outputs.lse = lse.view();
  outputs.lse_with_sink = lse_with_sink.view();
  if (selection.masked_logits) outputs.masked_logits = masked.view();
  if (selection.weights) outputs.weights = weights.view();
  if (selection.state) outputs.state = state.view();
  CallReport report = engine.Run(*plan, args_, outputs);
  EXPECT_TRUE(report.status.ok()) << report.status;
  outcome.output = output.Values();
  outcome.lse = lse.Values();
  outcome.lse_with_sink = lse_with_sink.Values();
  outcome.rows = std::move(report.row_statistics);
  outcome.state = state.Values();
  outcome.masked_logits = masked.Values();
  outcome.weights = weights.Values();
  return outcome;
}

std::vector<std::string> KernelsOf(const oracle::VariantCase& call, DType dtype,
                                   Rows rows) {
  const VariantRun run(call, dtype);
  std::vector<std::string> kernels;
  for (const Kernel* kernel : KernelTable()) {
    if (run.WhyNot(kernel->name(), rows).empty())
      kernels.emplace_back(kernel->name());
  }
  EXPECT_FALSE(kernels.empty()) << Describe(call);
  return kernels;
}

}  // namespace attn::testing
