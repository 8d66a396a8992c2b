// A kind of call and its share of a mixed load.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/load/call_profile.h"

namespace attn {

// Different payloads of a class take turns. Each is kept, and so is its right
// answer.
inline constexpr int kMostPayloads = 10'000;

// A value.
struct CallClass {
  std::string name = "call";
  // How often it is sent, in proportion to the others; > 0.
  double weight = 1;
  CallProfile call{};
  int payloads = 4;
  // Of each call, from its actual send; zero: the target's.
  absl::Duration deadline{};
};

}  // namespace attn
