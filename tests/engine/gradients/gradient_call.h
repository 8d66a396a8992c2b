// A double-precision call whose gradients are held against central differences
// of its own forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace attn::testing {

struct CallSize {
  int64_t batch = 2;
  int64_t q_heads = 4;
  int64_t kv_heads = 2;
  int64_t q_length = 5;
  int64_t kv_length = 17;
  int64_t k_dim = 7;
  int64_t v_dim = 6;
};

// What a backward call gave.
struct Gradients {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<std::vector<double>> inputs;  // empty for integer tensors
  CallReport report;
};

// The loss is <d_output, output> + <d_lse, lse>, of rows whose lse is finite;
// tensors are F64 and random from fixed seeds. Thread-compatible.
class GradientCall {
 public:
  explicit GradientCall(const CallSize& size);

  const CallSize& size() const { return size_; }
  AttentionSpec& spec() { return spec_; }
  AttentionArgs& args() { return args_; }
  // Without it the loss has no lse.
  void set_with_lse(bool with_lse) { with_lse_ = with_lse; }
  double* q() { return tensors_[0]->data(); }
  double* k() { return tensors_[1]->data(); }
  double* v() { return tensors_[2]->data(); }
  double* d_output() { return tensors_[3]->data(); }
  double* d_lse() { return tensors_[4]->data(); }

  // Adds an input of numbers between -spread and spread, around `centre`.
  uint32_t AddInput(const Shape& shape, double spread = 1, double centre = 0);
  double* input(uint32_t index) { return input_data_[index]; }
  // Adds an input of other types, which has no gradient.
  uint32_t AddBytes(DType dtype, const Shape& shape, const void* data);

  // The plan of the way back, or why there is none.
  absl::StatusOr<std::shared_ptr<const Plan>> PlanBackward();
  Gradients Backward(int workers = 1);
  CallReport RunCancelled(std::shared_ptr<const Plan> plan,
                          const Cancellation& cancelled);
  double Loss();

  // Every tensor's gradient, and that of the numbers in the spec that are set:
  // two random directions and a few elements of each. Every kernel that
  // supports the call in F32 gives the same within F32's digits.
  void ExpectExact();
  // The derivative by a number of the spec is `gradient`.
  void ExpectNumber(const std::string& name, double* number, double gradient);

 private:
  TensorView Add(const Shape& shape, double spread, double centre);
  GradientSelection Wanted() const;
  double Difference(const std::function<void(double)>& move);
  void ExpectTensor(const std::string& name, double* data,
                    const std::vector<double>& gradient);
  double* ScaleOfSpec();
  void ExpectNarrow(const Gradients& exact);

  CallSize size_;
  AttentionSpec spec_;
  AttentionArgs args_;
  OutputGradients cotangents_;
  bool with_lse_ = true;
  uint32_t seed_ = 1;
  Engine engine_;
  std::vector<std::unique_ptr<std::vector<double>>> tensors_;
  // Of args_.inputs; null for AddBytes().
  std::vector<double*> input_data_;
};

}  // namespace attn::testing
