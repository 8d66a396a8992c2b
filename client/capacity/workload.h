// What is asked of servers: sessions of a shape, and their steps.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/core/dtype.h"

namespace attn {

// Sessions that are all alike. A value.
struct SessionWorkload {
  // Of each session, and what each of its steps sees.
  int64_t tokens = 4096;
  // Tokens a second of each session.
  double rate = 1;
  // Tokens that a session begins with, in steps of kPrefillChunk; it ends, and
  // another begins, when it has `tokens`. 0: sessions never end.
  int64_t prompt = 0;
  int64_t layers = 32;
  int64_t q_heads = 32;
  int64_t kv_heads = 8;
  int64_t k_dim = 128;
  int64_t v_dim = 128;
  // How k and v are kept: F32, BF16, F16 or I8.
  DType kv_dtype = DType::kBF16;
  // How q, k, v and the output travel: F32, BF16 or F16.
  DType dtype = DType::kBF16;
  // Layers of one call: 1 for a decoder, as a layer's q comes from the layer
  // before. Divides `layers`.
  int64_t layers_per_call = 1;

  double calls_per_token() const;
  // Of one session.
  double calls_per_second() const;
  // Memory of one session on a server, as --max-session-bytes counts it.
  double session_bytes() const;
};

inline constexpr int64_t kPrefillChunk = 512;

// INVALID_ARGUMENT names what is out of range, as "--tokens" if `prefix` is
// "--".
absl::Status CheckWorkload(const SessionWorkload& workload,
                           const char* prefix = "");

// What a call is made of.
struct CallVolume {
  double layers = 0;
  // Of k and v that are read.
  double elements = 0;
  double bytes = 0;
  double multiply_adds = 0;
  // Of tensors.
  double payload_in = 0;
  double payload_out = 0;
};

// Of a step of one token.
CallVolume StepVolume(const SessionWorkload& workload);
// Of the step that brings the `chunk`th kPrefillChunk tokens, or what is left.
CallVolume PrefillVolume(const SessionWorkload& workload, int64_t chunk);
int64_t PrefillChunks(const SessionWorkload& workload);

}  // namespace attn
