// Calls of the service as cases need them.
#pragma once

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

// A call that owns its tensors.
struct ServiceCall {
  AttentionSpec spec;
  HostTensor q;
  HostTensor k;
  HostTensor v;
  std::vector<HostTensor> inputs;
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
  // The 16-bit type that the case's tensors are stored in.
  std::optional<DType> storage;

  int64_t batch() const { return q.shape()[0]; }
  int64_t q_length() const { return q.shape()[2]; }
  int64_t kv_length() const { return k.shape()[2]; }
  // Valid keys of one batch entry.
  int64_t kv_length(int64_t b) const {
    return kv_lengths.empty() ? kv_length()
                              : kv_lengths[static_cast<size_t>(b)];
  }

  // Adds a tensor that stages point to; returns its index.
  uint32_t AddInput(HostTensor tensor);
  // Adds a tensor and a stage that points to it.
  void AddBias(HostTensor tensor);
  void AddMask(HostTensor tensor);
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
