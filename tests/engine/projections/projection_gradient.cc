#include "tests/engine/projections/projection_gradient.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace attn::testing {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 3e-8;

// Bytes that no number is made of, so that what is not written is seen.
struct Room {
  std::vector<double> wide;
  std::vector<float> narrow;

  MutableTensorView View(const Shape& shape, DType dtype) {
    const auto count = static_cast<size_t>(shape.element_count());
    const double unwritten = std::nan("");
    if (dtype == DType::kF64) {
      wide.assign(count + 1, unwritten);
      return MutableTensorView::Dense(wide.data(), dtype, shape);
    }
    narrow.assign(count + 1, static_cast<float>(unwritten));
    return MutableTensorView::Dense(narrow.data(), dtype, shape);
  }
  std::vector<double> Values() const {
    std::vector<double> values = wide;
    if (wide.empty()) values.assign(narrow.begin(), narrow.end());
    if (!values.empty()) values.pop_back();
    return values;
  }
};

double Norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares);
}

}  // namespace

GradientSelection ProjectionLoss::Everything() const {
  GradientSelection wanted;
  wanted.from_output = from_output_;
  wanted.from_lse = from_lse_;
  wanted.q = wanted.k = true;
  wanted.v = !MakesValues(call_.spec());
  for (uint32_t i = 0; i < call_.args().inputs.size(); ++i) {
    if (IsFloat(call_.args().inputs[i].dtype)) wanted.inputs.push_back(i);
  }
  return wanted;
}

void ProjectionLoss::MakeCotangents() {
  if (!d_output_.values.empty()) return;
  Engine engine({.workers = 1});
  const auto plan = call_.MakePlan(engine);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const AttentionShape& s = (*plan)->problem.shape;
  d_output_ = SomeNumbers((*plan)->problem.OutputShape(), 77);
  d_lse_ = SomeNumbers({s.batch, s.q_heads, s.q_length}, 78);
}

Numbers& ProjectionLoss::d_output() {
  MakeCotangents();
  return d_output_;
}

Numbers& ProjectionLoss::d_lse() {
  MakeCotangents();
  return d_lse_;
}

LayerGradientResult ProjectionLoss::GoBack(int workers) {
  return GoBack(workers, Everything());
}

LayerGradientResult ProjectionLoss::GoBack(int workers,
                                           const GradientSelection& wanted) {
  MakeCotangents();
  LayerGradientResult result;
  const AttentionArgs& args = call_.args();
  OutputGradients cotangents;
  cotangents.output =
      TensorView::Dense(d_output_.values.data(), DType::kF64, d_output_.shape);
  cotangents.lse =
      TensorView::Dense(d_lse_.values.data(), DType::kF64, d_lse_.shape);
  if (!from_output_) cotangents.output.data = nullptr;
  if (!from_lse_) cotangents.lse.data = nullptr;
  Engine engine({.workers = workers});
  const auto plan = engine.PlanBackward(call_.spec(), args, cotangents, wanted);
  result.status = plan.status();
  if (!plan.ok()) return result;
  const DType dtype = (*plan)->problem.output_dtype;
  Room q;
  Room k;
  Room v;
  std::vector<Room> inputs(args.inputs.size());
  InputGradients gradients;
  gradients.inputs.resize(args.inputs.size());
  if (wanted.q) gradients.q = q.View(args.q.shape, dtype);
  if (wanted.k) gradients.k = k.View(args.k.shape, dtype);
  if (wanted.v) gradients.v = v.View(args.v.shape, dtype);
  for (const uint32_t input : wanted.inputs) {
    gradients.inputs[input] =
        inputs[input].View(args.inputs[input].shape, dtype);
  }
  result.report = engine.RunBackward(*plan, args, cotangents, gradients);
  result.status = result.report.status;
  result.q = q.Values();
  result.k = k.Values();
  result.v = v.Values();
  for (const Room& input : inputs) result.inputs.push_back(input.Values());
  return result;
}

double ProjectionLoss::Value() {
  Engine engine({.workers = 1});
  const auto plan = call_.MakePlan(engine);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return 0;
  std::vector<double> output(d_output_.values.size() + 1);
  std::vector<double> lse(d_lse_.values.size() + 1);
  AttentionOutputs outputs;
  outputs.output =
      MutableTensorView::Dense(output.data(), DType::kF64, d_output_.shape);
  outputs.lse = MutableTensorView::Dense(lse.data(), DType::kF64, d_lse_.shape);
  const CallReport report = engine.Run(*plan, call_.args(), outputs);
  EXPECT_TRUE(report.status.ok()) << report.status;
  double loss = 0;
  for (size_t i = 0; from_output_ && i < d_output_.values.size(); ++i) {
    loss += d_output_.values[i] * output[i];
  }
  for (size_t i = 0; from_lse_ && i < d_lse_.values.size(); ++i) {
    if (std::isfinite(lse[i])) loss += d_lse_.values[i] * lse[i];
  }
  return loss;
}

void ProjectionLoss::ExpectTensor(const std::string& name,
                                  const TensorView& tensor,
                                  const std::vector<double>& gradient) {
  // The call owns the numbers behind its views.
  auto* data =
      const_cast<double*>(reinterpret_cast<const double*>(tensor.data));
  const size_t count = gradient.size();
  ASSERT_EQ(static_cast<int64_t>(count), tensor.shape.element_count()) << name;
  if (count == 0) return;
  const double tolerance = kTolerance * (1 + Norm(gradient));
  const auto difference = [&](const std::function<void(double)>& move) {
    move(kStep);
    const double above = Value();
    move(-2 * kStep);
    const double below = Value();
    move(kStep);
    return (above - below) / (2 * kStep);
  };
  std::mt19937 generator(99);
  std::normal_distribution<double> draw;
  std::vector<double> direction(count);
  for (double& x : direction) x = draw(generator);
  const double norm = Norm(direction);
  double expected = 0;
  for (size_t i = 0; i < count; ++i) {
    direction[i] /= norm;
    expected += gradient[i] * direction[i];
  }
  const double along = difference([&](double step) {
    for (size_t i = 0; i < count; ++i) data[i] += step * direction[i];
  });
  EXPECT_NEAR(along, expected, tolerance) << name;
  for (size_t e = 0; e < std::min<size_t>(3, count); ++e) {
    const size_t i = generator() % count;
    const double found = difference([&](double step) { data[i] += step; });
    EXPECT_NEAR(found, gradient[i], tolerance) << name << "[" << i << "]";
  }
}

void ProjectionLoss::ExpectExact() {
  const LayerGradientResult gradients = GoBack();
  ASSERT_TRUE(gradients.status.ok()) << gradients.status;
  const AttentionArgs& args = call_.args();
  ExpectTensor("q", args.q, gradients.q);
  ExpectTensor("k", args.k, gradients.k);
  if (!MakesValues(call_.spec())) ExpectTensor("v", args.v, gradients.v);
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (!IsFloat(args.inputs[i].dtype)) continue;
    ExpectTensor(absl::StrCat("inputs[", i, "]"), args.inputs[i],
                 gradients.inputs[i]);
  }
}

}  // namespace attn::testing
