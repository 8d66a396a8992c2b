#include "tests/engine/gradients/gradient_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <random>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/gradients/kernel_run.h"

namespace attn::testing {
namespace {

// Central differences err by step^2 times the third derivative, and by the last
// digits of a loss of about 10 over the step: both near 1e-10 here.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;
constexpr int kDirections = 2;
constexpr size_t kElements = 5;

template <typename T>
MutableTensorView Room(std::vector<T>& values, const Shape& shape) {
  values.assign(static_cast<size_t>(shape.element_count()), T{-77});
  return MutableTensorView::Dense(values.data(), DType::kF64, shape);
}

double Norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares);
}

}  // namespace

GradientCall::GradientCall(const CallSize& s)
    : size_(s), engine_({.workers = 1}) {
  args_.q = Add({s.batch, s.q_heads, s.q_length, s.k_dim}, 1.5, 0);
  args_.k = Add({s.batch, s.kv_heads, s.kv_length, s.k_dim}, 1.5, 0);
  args_.v = Add({s.batch, s.kv_heads, s.kv_length, s.v_dim}, 1, 0);
  cotangents_.output = Add({s.batch, s.q_heads, s.q_length, s.v_dim}, 1, 0);
  cotangents_.lse = Add({s.batch, s.q_heads, s.q_length}, 1, 0);
}

TensorView GradientCall::Add(const Shape& shape, double spread, double centre) {
  std::mt19937 generator(seed_++);
  std::uniform_real_distribution<double> draw(centre - spread, centre + spread);
  auto values = std::make_unique<std::vector<double>>();
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    values->push_back(draw(generator));
  }
  tensors_.push_back(std::move(values));
  return TensorView::Dense(tensors_.back()->data(), DType::kF64, shape);
}

uint32_t GradientCall::AddInput(const Shape& shape, double spread,
                                double centre) {
  args_.inputs.push_back(Add(shape, spread, centre));
  input_data_.push_back(tensors_.back()->data());
  return static_cast<uint32_t>(args_.inputs.size() - 1);
}

uint32_t GradientCall::AddBytes(DType dtype, const Shape& shape,
                                const void* data) {
  const auto bytes = static_cast<size_t>(shape.element_count()) * SizeOf(dtype);
  tensors_.push_back(std::make_unique<std::vector<double>>(bytes / 8 + 1));
  std::memcpy(tensors_.back()->data(), data, bytes);
  args_.inputs.push_back(
      TensorView::Dense(tensors_.back()->data(), dtype, shape));
  input_data_.push_back(nullptr);
  return static_cast<uint32_t>(args_.inputs.size() - 1);
}

GradientSelection GradientCall::Wanted() const {
  GradientSelection wanted;
  wanted.from_output = true;
  wanted.from_lse = with_lse_;
  wanted.q = wanted.k = wanted.v = true;
  for (uint32_t i = 0; i < input_data_.size(); ++i) {
    if (input_data_[i] != nullptr) wanted.inputs.push_back(i);
  }
  return wanted;
}

absl::StatusOr<std::shared_ptr<const Plan>> GradientCall::PlanBackward() {
  return engine_.PlanBackward(spec_, args_, cotangents_, Wanted());
}

Gradients GradientCall::Backward(int workers) {
  Gradients result;
  Engine engine({.workers = workers});
  const auto plan = engine.PlanBackward(spec_, args_, cotangents_, Wanted());
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return result;
  OutputGradients cotangents = cotangents_;
  if (!with_lse_) cotangents.lse.data = nullptr;
  InputGradients gradients;
  gradients.q = Room(result.q, args_.q.shape);
  gradients.k = Room(result.k, args_.k.shape);
  gradients.v = Room(result.v, args_.v.shape);
  result.inputs.resize(args_.inputs.size());
  gradients.inputs.resize(args_.inputs.size());
  for (size_t i = 0; i < args_.inputs.size(); ++i) {
    if (input_data_[i] == nullptr) continue;
    gradients.inputs[i] = Room(result.inputs[i], args_.inputs[i].shape);
  }
  result.report = engine.RunBackward(*plan, args_, cotangents, gradients);
  EXPECT_TRUE(result.report.status.ok()) << result.report.status;
  return result;
}

CallReport GradientCall::RunCancelled(std::shared_ptr<const Plan> plan,
                                      const Cancellation& cancelled) {
  std::promise<CallReport> report;
  const InputGradients none{
      {}, {}, {}, std::vector<MutableTensorView>(args_.inputs.size())};
  engine_.SubmitBackward(
      std::move(plan), args_, cotangents_, none, cancelled,
      [&report](CallReport given) { report.set_value(std::move(given)); });
  return report.get_future().get();
}

double GradientCall::Loss() {
  const auto plan = engine_.Plan(spec_, args_, OutputSelection{}, DType::kF64);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return 0;
  std::vector<double> output;
  std::vector<double> lse;
  AttentionOutputs outputs;
  outputs.output = Room(output, cotangents_.output.shape);
  outputs.lse = Room(lse, cotangents_.lse.shape);
  const CallReport report = engine_.Run(*plan, args_, outputs);
  EXPECT_TRUE(report.status.ok()) << report.status;
  double loss = 0;
  for (size_t i = 0; i < output.size(); ++i) loss += d_output()[i] * output[i];
  for (size_t i = 0; i < lse.size() && with_lse_; ++i) {
    if (std::isfinite(lse[i])) loss += d_lse()[i] * lse[i];
  }
  return loss;
}

double GradientCall::Difference(const std::function<void(double)>& move) {
  move(kStep);
  const double above = Loss();
  move(-2 * kStep);
  const double below = Loss();
  move(kStep);
  return (above - below) / (2 * kStep);
}

void GradientCall::ExpectTensor(const std::string& name, double* data,
                                const std::vector<double>& gradient) {
  const size_t count = gradient.size();
  if (count == 0) return;
  const double tolerance = kTolerance * (1 + Norm(gradient));
  std::mt19937 generator(99);
  std::normal_distribution<double> draw;
  for (int d = 0; d < kDirections; ++d) {
    std::vector<double> direction(count);
    for (double& x : direction) x = draw(generator);
    const double norm = Norm(direction);
    double expected = 0;
    for (size_t i = 0; i < count; ++i) {
      direction[i] /= norm;
      expected += gradient[i] * direction[i];
    }
    const double found = Difference([&](double step) {
      for (size_t i = 0; i < count; ++i) data[i] += step * direction[i];
    });
    EXPECT_NEAR(found, expected, tolerance) << name << ", direction " << d;
  }
  for (size_t e = 0; e < std::min(kElements, count); ++e) {
    const size_t i = generator() % count;
    const double found = Difference([&](double step) { data[i] += step; });
    EXPECT_NEAR(found, gradient[i], tolerance) << name << "[" << i << "]";
  }
}

void GradientCall::ExpectNumber(const std::string& name, double* number,
                                double gradient) {
  const double found = Difference([&](double step) { *number += step; });
  EXPECT_NEAR(found, gradient, 1e-7 * (1 + std::abs(gradient))) << name;
}

// Null: the score has none, or it is not set.
double* GradientCall::ScaleOfSpec() {
  const auto of = [](std::optional<double>& scale) {
    return scale.has_value() ? &*scale : nullptr;
  };
  if (auto* dot = std::get_if<DotScore>(&spec_.score)) return of(dot->scale);
  if (auto* s = std::get_if<BilinearScore>(&spec_.score)) return of(s->scale);
  if (auto* s = std::get_if<CosineScore>(&spec_.score)) return of(s->scale);
  if (auto* s = std::get_if<DistanceScore>(&spec_.score)) return of(s->scale);
  return nullptr;
}

// Of gradients in F32, beside their norm: sums of some hundred terms.
constexpr double kNarrowTolerance = 5e-6;

void ExpectNear(const std::string& name, const std::vector<double>& got,
                const std::vector<double>& exact) {
  ASSERT_EQ(got.size(), exact.size()) << name;
  double squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    squares += (got[i] - exact[i]) * (got[i] - exact[i]);
  }
  EXPECT_LE(std::sqrt(squares), kNarrowTolerance * (1 + Norm(exact))) << name;
}

void GradientCall::ExpectNarrow(const Gradients& exact) {
  OutputGradients cotangents = cotangents_;
  if (!with_lse_) cotangents.lse.data = nullptr;
  const NarrowCall narrow({spec_, args_, cotangents, Wanted()});
  for (const Kernel* kernel : KernelsOf(narrow.call())) {
    SCOPED_TRACE(kernel->name());
    const KernelGradients got = RunKernel(*kernel, narrow.call());
    ExpectNear("q", got.q, exact.q);
    ExpectNear("k", got.k, exact.k);
    ExpectNear("v", got.v, exact.v);
    for (size_t i = 0; i < got.inputs.size(); ++i) {
      const uint32_t input = narrow.call().wanted.inputs[i];
      ExpectNear(absl::StrCat("inputs[", input, "]"), got.inputs[i],
                 exact.inputs[input]);
    }
    const ScalarGradients& numbers = exact.report.scalar_gradients;
    ExpectNear("scale", {got.numbers.scale}, {numbers.scale});
    ExpectNear("softcap", {got.numbers.softcap}, {numbers.softcap});
    ExpectNear("temperatures", got.numbers.temperatures, numbers.temperatures);
  }
}

void GradientCall::ExpectExact() {
  const Gradients gradients = Backward();
  if (::testing::Test::HasFailure()) return;
  ExpectNarrow(gradients);
  ExpectTensor("q", q(), gradients.q);
  ExpectTensor("k", k(), gradients.k);
  ExpectTensor("v", v(), gradients.v);
  for (size_t i = 0; i < input_data_.size(); ++i) {
    if (input_data_[i] == nullptr) continue;
    ExpectTensor(absl::StrCat("inputs[", i, "]"), input_data_[i],
                 gradients.inputs[i]);
  }
  const ScalarGradients& numbers = gradients.report.scalar_gradients;
  if (double* scale = ScaleOfSpec()) {
    ExpectNumber("scale", scale, numbers.scale);
  }
  if (spec_.softcap.has_value()) {
    ExpectNumber("softcap", &*spec_.softcap, numbers.softcap);
  }
  ASSERT_EQ(numbers.temperatures.size(), spec_.temperatures.size());
  for (size_t i = 0; i < spec_.temperatures.size(); ++i) {
    ExpectNumber("temperature", &spec_.temperatures[i],
                 numbers.temperatures[i]);
  }
}

}  // namespace attn::testing
