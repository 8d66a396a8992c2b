// What is counted of all sessions.
#pragma once

#include <cstdint>

namespace attn {

enum class SessionEnd : uint8_t { kClient, kIdle, kEvicted, kDamaged };
enum class SessionError : uint8_t {
  kNotFound,
  kWrongEpoch,
  kStepGap,
  kStepReplayed,
  kKvMemory
};
enum class SpillError : uint8_t {
  kWrite,    // the disk would not take a session
  kFull,     // --max-spill-bytes
  kRead,     // a file could not be looked at, and stays
  kDamaged,  // a file that is no session
};

// A value.
struct SessionTotals {
  // Those that are found, spilled ones too.
  int64_t sessions = 0;
  // Of blocks, each once, of kept answers and of sessions themselves.
  int64_t bytes = 0;
  int64_t max_bytes = 0;
  // By SessionEnd.
  int64_t ended[4] = {};
  // By SessionError.
  int64_t errors[5] = {};
  // On disk, of `sessions`; and of their files.
  int64_t spilled = 0;
  int64_t spilled_bytes = 0;
  int64_t spills = 0;
  int64_t restores = 0;
  // By SpillError.
  int64_t spill_errors[4] = {};
};

}  // namespace attn
