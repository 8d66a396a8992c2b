// Calls of the service as cases need them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/check/case.h"
#include "client/cli/compare.h"
#include "client/io/tensor_file.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"

namespace attn {

// Where an input of a case went, so that its gradient can be found.
struct InputPlace {
  uint32_t index = 0;
  // With its last two axes swapped.
  bool transposed = false;
};

// A call that owns its tensors.
struct ServiceCall {
  AttentionSpec spec;
  HostTensor q;
  HostTensor k;
  HostTensor v;
  std::vector<HostTensor> inputs;
  // Inputs of the case that came by AddNamed() or AddTransposed().
  std::map<std::string, InputPlace> places;
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
  // The 16-bit type that the case's tensors are stored in.
  std::optional<DType> storage;

  int64_t batch() const { return q.shape()[0]; }
  // Of [B, H, S, D], or of token rows [B, S, in].
  int64_t q_length() const { return q.shape()[q.shape().rank() - 2]; }
  int64_t kv_length() const { return k.shape()[k.shape().rank() - 2]; }
  // Valid keys of one batch entry.
  int64_t kv_length(int64_t b) const {
    return kv_lengths.empty() ? kv_length()
                              : kv_lengths[static_cast<size_t>(b)];
  }

  // Adds a tensor that stages point to; returns its index.
  uint32_t AddInput(HostTensor tensor);
  // The same, of the case's input of that name.
  uint32_t AddNamed(const std::string& name, const HostTensor& tensor);
  uint32_t AddTransposed(const std::string& name, const HostTensor& tensor);
  // Adds a tensor and a stage that points to it.
  void AddBias(HostTensor tensor);
  void AddMask(HostTensor tensor);
};

// Gradients of a loss with respect to what a call gives; null: 0.
struct CaseCotangents {
  const HostTensor* output = nullptr;  // [B, Hq, Sq, d_v]
  const HostTensor* lse = nullptr;     // [B, Hq, Sq]
};

// Gradients with respect to what a call brings, each of its tensor's shape. An
// input that is not of floats has [0].
struct CaseGradients {
  HostTensor q;
  HostTensor k;
  HostTensor v;
  std::vector<HostTensor> inputs;
};

// The type that the tensors of cases are sent as.
enum class Precision { kF32, kF64, kBF16, kF16 };

// Converts, calls, and gives the named outputs. Thread-compatible.
class Service {
 public:
  Service(AttentionClient client, Precision precision, std::string kernel)
      : client_(std::move(client)),
        precision_(precision),
        kernel_(std::move(kernel)) {}

  // Outputs by the names of client/library/outputs.h. Skip() if the case's
  // numbers do not fit the precision.
  absl::StatusOr<TensorMap> Attend(const ServiceCall& call,
                                   const std::vector<std::string>& names) const;

  absl::StatusOr<CaseGradients> AttendBackward(
      const ServiceCall& call, const CaseCotangents& cotangents) const;

  // What the case allows an engine of this precision.
  const Tolerance& ToleranceOf(const Case& tested) const {
    return precision_ == Precision::kF64 ? tested.tolerance64
                                         : tested.tolerance32;
  }

 private:
  DType TypeFor(const ServiceCall& call) const;

  AttentionClient client_;
  Precision precision_;
  std::string kernel_;
};

}  // namespace attn
