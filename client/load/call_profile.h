// One kind of call that a load is made of.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/load/session_profile.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/dtype.h"
#include "proto/codec/inspect_codec.h"
#include "proto/codec/schema.h"

namespace attn {

enum class CallKind {
  kAttend,
  // Looks inside; its answers are not verified.
  kInspect,
  // A step of a session; CallProfile::sessions says of which.
  kSession,
};

// A value; thread-compatible.
struct CallProfile {
  AttentionShape shape;
  DType dtype = DType::kF32;
  // Aligned bottom right where Sq and Sk differ, as when decoding.
  bool causal = false;
  // Of the tensors' values.
  uint64_t seed = 0;
  // To which `causal` adds its mask. Without inputs.
  AttentionSpec stages{};
  CallKind kind = CallKind::kAttend;
  v1::Priority priority = v1::PRIORITY_NORMAL;
  // Of kInspect.
  InspectQuestion question{};
  // Of kSession.
  SessionProfile sessions{};

  AttentionSpec Spec() const;
  // "1,4,4,16,16,32 F32 causal", "inspect 1,8,8,64,64,64 F32", "8 sessions of
  // 1,8,2,1,512,64 BF16"; d_v only where it differs from d_k.
  std::string ToString() const;
};

// "B,Hq,Hkv,Sq,Sk,D[,Dv]", each > 0. INVALID_ARGUMENT names "shape". That the
// heads divide is left to the server, which says it better.
absl::StatusOr<AttentionShape> ParseCallShape(const std::string& text);

}  // namespace attn
