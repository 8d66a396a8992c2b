// What the requests that compute have in common on the wire: a spec, lengths,
// tensors, a request id. A message of its own has its own header
// (attend_codec.h, backward_codec.h), which adds what it alone has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "proto/codec/layer_refs.h"
#include "proto/codec/schema.h"

namespace attn {

// A tensor that only some messages have. `view` is [B, H, S, D] if it came with
// a layout.
struct ExtraTensor {
  int field = 0;
  TensorView view;
};

// A decoded request. Owns its payloads; `args` and `extras` view them, q, k and
// v as [B, H, S, D] whatever the wire's layout was. Move-only.
struct WireCall {
  AttentionSpec spec;
  AttentionArgs args;
  // Whether q came as [B, S, H, D]; what has its shape goes back the same way.
  bool bshd = false;
  // The same of k and v.
  bool k_bshd = false;
  bool v_bshd = false;
  std::string request_id;
  v1::Priority priority = v1::PRIORITY_NORMAL;
  // In the order in which they came.
  std::vector<ExtraTensor> extras;
  std::vector<AlignedBuffer> storage;
  // What the spec names of layers on the server, in place of the inputs after
  // those of the request. Who has the layers appends them to args.inputs, and
  // what keeps their memory to `owners`.
  std::vector<LayerReference> layer_refs;
  // The same of q, k and v; what they name takes its place in args.
  std::vector<OperandReference> operand_refs;
  std::vector<std::shared_ptr<const void>> owners;
  // Sum of the payloads.
  int64_t payload_bytes = 0;

  // A view without data if the request does not have it.
  TensorView Extra(int field) const;
};

// The reverse, for clients. `args` views q, k and v as [B, H, S, D] here too;
// `bshd` only picks the order of axes on the wire. Borrows the views' memory.
struct CallMessage {
  AttentionSpec spec;
  AttentionArgs args;
  bool bshd = false;
  std::string request_id;
  v1::Priority priority = v1::PRIORITY_NORMAL;
};

}  // namespace attn
