// A call with any spec, computed by a kernel of the engine.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "gtest/gtest.h"

namespace attn::testing {

// What a run left behind; F32 tensors as they came.
struct SpecOutcome {
  std::vector<float> output;
  std::vector<float> weights;
  std::vector<float> masked_logits;
  std::vector<uint8_t> keep;
  std::vector<RowStatistics> rows;
};

// q, k and v of numbers between -1.5 and 1.5, F32. Thread-compatible.
class SpecCall {
 public:
  SpecCall(int64_t batch, int64_t heads, int64_t q_length, int64_t kv_length)
      : batch_(batch), heads_(heads), sq_(q_length), sk_(kv_length) {
    args_.q = Add({batch, heads, q_length, kDim}, 1);
    args_.k = Add({batch, heads, kv_length, kDim}, 2);
    args_.v = Add({batch, heads, kv_length, kDim}, 3);
  }

  static constexpr int64_t kDim = 8;

  AttentionSpec& spec() { return spec_; }
  const AttentionSpec& spec() const { return spec_; }
  AttentionArgs& args() { return args_; }
  float V(int64_t plane, int64_t key, int64_t c) const {
    return reinterpret_cast<const float*>(
        args_.v.data)[(plane * sk_ + key) * kDim + c];
  }

  // Copies `values` as the next input and gives its index.
  template <typename T>
  uint32_t AddInput(DType dtype, const Shape& shape,
                    const std::vector<T>& values) {
    args_.inputs.push_back(Store(dtype, shape, values));
    return static_cast<uint32_t>(args_.inputs.size() - 1);
  }

  absl::Status Check(bool keep = false) const {
    Engine engine({.workers = 1});
    OutputSelection outputs;
    outputs.dropout_keep = keep;
    return engine.Plan(spec_, args_, outputs, DType::kF32).status();
  }

  SpecOutcome Run(const std::string& kernel, int workers = 1,
                  bool statistics = false) const {
    Engine engine({.workers = workers});
    OutputSelection selection;
    selection.weights = true;
    selection.masked_logits = true;
    selection.dropout_keep = spec_.dropout.has_value();
    selection.statistics = statistics;
    SpecOutcome outcome;
    const auto plan = engine.Plan(spec_, args_, selection, DType::kF32, kernel);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return outcome;
    const Shape scores = {batch_, heads_, sq_, sk_};
    AttentionOutputs outputs;
    outputs.output = Room(outcome.output, {batch_, heads_, sq_, kDim});
    outputs.weights = Room(outcome.weights, scores);
    outputs.masked_logits = Room(outcome.masked_logits, scores);
    if (selection.dropout_keep) {
      outcome.keep.assign(outcome.weights.size(), 7);
      outputs.dropout_keep =
          MutableTensorView::Dense(outcome.keep.data(), DType::kBool, scores);
    }
    CallReport report = engine.Run(*plan, args_, outputs);
    EXPECT_TRUE(report.status.ok()) << report.status;
    outcome.rows = std::move(report.row_statistics);
    return outcome;
  }

 private:
  static MutableTensorView Room(std::vector<float>& values,
                                const Shape& shape) {
    values.assign(static_cast<size_t>(shape.element_count()), -77.0F);
    return MutableTensorView::Dense(values.data(), DType::kF32, shape);
  }
  template <typename T>
  TensorView Store(DType dtype, const Shape& shape,
                   const std::vector<T>& values) {
    storage_.push_back(
        std::make_unique<std::byte[]>(values.size() * sizeof(T) + 1));
    std::memcpy(storage_.back().get(), values.data(),
                values.size() * sizeof(T));
    return TensorView::Dense(storage_.back().get(), dtype, shape);
  }
  TensorView Add(const Shape& shape, double frequency) {
    std::vector<float> values;
    for (int64_t i = 0; i < shape.element_count(); ++i) {
      const double x = std::sin(frequency * static_cast<double>(i * i % 1009));
      values.push_back(static_cast<float>(1.5 * x));
    }
    return Store(DType::kF32, shape, values);
  }

  int64_t batch_;
  int64_t heads_;
  int64_t sq_;
  int64_t sk_;
  AttentionSpec spec_;
  AttentionArgs args_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

}  // namespace attn::testing
