// Plan: how a call would be computed. Computes nothing.
#pragma once

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "proto/codec/schema.h"
#include "server/rpc/call_record.h"

namespace attn {

// Thread-safe.
class PlanHandler {
 public:
  // `engine` must outlive this.
  explicit PlanHandler(Engine& engine) : engine_(engine) {}

  // Notes variant, shape and kernel in `record`.
  absl::StatusOr<v1::PlanResponse> Handle(const v1::PlanRequest& request,
                                          CallRecord& record);

 private:
  Engine& engine_;
};

}  // namespace attn
