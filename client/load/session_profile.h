// What the sessions of a load are and do.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/attention_args.h"
#include "engine/core/dtype.h"

namespace attn {

// Each place of a load keeps figures of its own.
inline constexpr int kMostLoadSessions = 10'000;

// Of a CallProfile of kind kSession, whose shape says the rest: heads and
// widths, q_length tokens in each step, and kv_length tokens that are there
// before the first. A value.
struct SessionProfile {
  // That are open at the same time.
  int sessions = 1;
  // In each step.
  int layers = 1;
  // How the server keeps k and v: F32, F16, BF16 or I8.
  DType kv_dtype = DType::kF32;
  // Tokens of a step that brings the first ones: so many at most.
  int64_t chunk = 512;
  // Of the first tokens so many are those of a session that the others are
  // forks of; 0: each brings all of its own.
  int64_t shared = 0;
  // After so many steps a session is closed, and another opened in its place;
  // 0: none is before the run is over.
  int64_t steps = 0;
  // Whether the steps of each session go over a stream of its own.
  bool stream = false;
};

// The most of SessionProfile's numbers: what the server takes, or what can be
// meant.
inline constexpr int kMostSessionLayers = 1024;
inline constexpr int64_t kMostSessionTokens = int64_t{1} << 30;

// "f32", "bf16", "f16", "int8". INVALID_ARGUMENT names `field`.
absl::StatusOr<DType> ParseKvDType(const std::string& text,
                                   absl::string_view field);

// INVALID_ARGUMENT if sessions cannot be of that shape, or take that type.
// Names shape, dtype or shared, with `prefix` in front.
absl::Status CheckSessionProfile(const SessionProfile& sessions,
                                 const AttentionShape& shape, DType dtype,
                                 absl::string_view prefix);

}  // namespace attn
