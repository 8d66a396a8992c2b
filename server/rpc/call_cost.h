// What a call takes, once it is planned.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/plan/plan.h"

namespace attn {

// What a call takes. `plan` names the kernel, the scale and the pipeline in the
// report and the log.
struct CallCost {
  std::shared_ptr<const Plan> plan;
  double flops = 0;
  // Bytes of the response, tags included.
  int64_t message_bytes = 0;
  // With what the engine needs besides.
  int64_t booked_bytes = 0;
  // Its share of the token budget; 0: the rows and keys that it brings.
  int64_t tokens = 0;
};

}  // namespace attn
