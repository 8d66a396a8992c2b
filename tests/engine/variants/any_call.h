// A call with any spec and any tensors, computed by a kernel of the engine.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "gtest/gtest.h"

namespace attn::testing {

// Owns the memory of tensors. Thread-compatible.
class TensorStore {
 public:
  template <typename T>
  TensorView Put(DType dtype, const Shape& shape,
                 const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    storage_.push_back(std::make_unique<std::byte[]>(bytes + 1));
    std::memcpy(storage_.back().get(), values.data(), bytes);
    return TensorView::Dense(storage_.back().get(), dtype, shape);
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

// Numbers between -1.5 and 1.5 that follow no pattern.
inline std::vector<float> Wave(int64_t count, double frequency) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const double x = std::sin(frequency * static_cast<double>(i * i % 1009));
    values.push_back(static_cast<float>(1.5 * x));
  }
  return values;
}

// F32, or F64 in a double call, as doubles.
struct AnyOutcome {
  std::vector<double> output;
  std::vector<double> lse;
  std::vector<double> weights;
  std::string pipeline;
  CallReport report;
};

// Memory for one output; reads as -77 where nothing was written.
class OutputRoom {
 public:
  OutputRoom(DType dtype, const Shape& shape)
      : dtype_(dtype),
        singles_(static_cast<size_t>(shape.element_count()), -77.0F),
        doubles_(singles_.begin(), singles_.end()),
        view_(MutableTensorView::Dense(
            dtype == DType::kF64 ? static_cast<void*>(doubles_.data())
                                 : static_cast<void*>(singles_.data()),
            dtype, shape)) {}

  const MutableTensorView& view() const { return view_; }
  std::vector<double> values() const {
    if (dtype_ == DType::kF64) return doubles_;
    return {singles_.begin(), singles_.end()};
  }

 private:
  DType dtype_;
  std::vector<float> singles_;
  std::vector<double> doubles_;
  MutableTensorView view_;
};

inline AnyOutcome RunAny(const AttentionSpec& spec, const AttentionArgs& args,
                         const std::string& kernel) {
  Engine engine({.workers = 1});
  AnyOutcome outcome;
  OutputSelection selection;
  selection.weights = kernel == "rowwise" || kernel == "reference";
  const DType dtype = args.q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto plan = engine.Plan(spec, args, selection, dtype, kernel);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return outcome;
  const AttentionShape& s = (*plan)->problem.shape;
  const OutputRoom output(
      dtype, args.ragged() ? Shape{args.q.shape[0], s.q_heads, s.v_dim}
                           : Shape{s.batch, s.q_heads, s.q_length, s.v_dim});
  const OutputRoom lse(dtype, {s.batch, s.q_heads, s.q_length});
  const OutputRoom weights(dtype,
                           {s.batch, s.q_heads, s.q_length, s.kv_length});
  AttentionOutputs outputs;
  outputs.output = output.view();
  outputs.lse = lse.view();
  if (selection.weights) outputs.weights = weights.view();
  outcome.report = engine.Run(*plan, args, outputs);
  EXPECT_TRUE(outcome.report.status.ok()) << outcome.report.status;
  outcome.output = output.values();
  outcome.lse = lse.values();
  outcome.weights = weights.values();
  outcome.pipeline = (*plan)->pipeline;
  return outcome;
}

// What Plan() says.
inline absl::Status CheckAny(const AttentionSpec& spec,
                             const AttentionArgs& args,
                             DType output_dtype = DType::kF32) {
  Engine engine({.workers = 1});
  return engine.Plan(spec, args, OutputSelection{}, output_dtype).status();
}

inline std::vector<uint64_t> BitsOf(const std::vector<double>& values) {
  std::vector<uint64_t> bits;
  for (const double value : values) {
    bits.push_back(std::bit_cast<uint64_t>(value));
  }
  return bits;
}

}  // namespace attn::testing
