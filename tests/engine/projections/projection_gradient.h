// The way back of a ProjectionCall, and the derivatives of its own way forth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/projections/projection_call.h"

namespace attn::testing {

struct LayerGradientResult {
  absl::Status status;
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<std::vector<double>> inputs;
  CallReport report;
};

// The loss is <d_output, output> + <d_lse, lse>, of rows whose lse is finite.
// Borrows the call. Thread-compatible.
class ProjectionLoss {
 public:
  explicit ProjectionLoss(ProjectionCall& call) : call_(call) {}

  // Wants the gradients of everything but for inputs that are none of floats.
  GradientSelection Everything() const;
  void set_from(bool output, bool lse) {
    from_output_ = output;
    from_lse_ = lse;
  }
  // Of the output's shape; made by the first call that needs it.
  Numbers& d_output();
  Numbers& d_lse();

  LayerGradientResult GoBack(int workers = 1);
  LayerGradientResult GoBack(int workers, const GradientSelection& wanted);
  double Value();

  // Gradients of every tensor against central differences. The call is F64.
  void ExpectExact();

 private:
  void MakeCotangents();
  void ExpectTensor(const std::string& name, const TensorView& tensor,
                    const std::vector<double>& gradient);

  ProjectionCall& call_;
  bool from_output_ = true;
  bool from_lse_ = false;
  Numbers d_output_;
  Numbers d_lse_;
};

}  // namespace attn::testing
