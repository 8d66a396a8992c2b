// Plan: how a call would be computed. Computes nothing.
#pragma once

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "proto/codec/schema.h"
#include "server/layers/layer_store.h"
#include "server/rpc/call_record.h"

namespace attn {

// Thread-safe.
class PlanHandler {
 public:
  // Both must outlive this; `layers` may be null.
  PlanHandler(Engine& engine, const LayerStore* layers)
      : engine_(engine), layers_(layers) {}

  // Notes variant, shape and kernel in `record`.
  absl::StatusOr<v1::PlanResponse> Handle(const v1::PlanRequest& request,
                                          CallRecord& record);

 private:
  Engine& engine_;
  const LayerStore* layers_;
};

}  // namespace attn
