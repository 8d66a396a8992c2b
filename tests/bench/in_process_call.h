// One call of the engine in this process, ready to be repeated.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/load/payload.h"
#include "engine/engine.h"

namespace attn {

// Owns tensors, plan and output. Not thread-safe.
class InProcessCall {
 public:
  // `engine` must outlive the call.
  static absl::StatusOr<std::unique_ptr<InProcessCall>> Create(
      Engine& engine, const CallProfile& profile);

  // Dies if the call fails: a fault of the benchmark's.
  void Run();

  const Payload& payload() const { return payload_; }
  const Plan& plan() const { return *plan_; }

 private:
  InProcessCall(Engine& engine, Payload payload)
      : engine_(engine), payload_(std::move(payload)) {}

  Engine& engine_;
  Payload payload_;
  AttentionArgs args_;
  std::shared_ptr<const Plan> plan_;
  HostTensor output_;
  AttentionOutputs outputs_;
};

}  // namespace attn
