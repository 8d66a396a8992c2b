#include "client/load/load_result.h"

namespace attn {

int64_t LoadResult::error_count() const {
  int64_t total = 0;
  for (const auto& [code, count] : errors) total += count;
  return total;
}

double LoadResult::offered_rate() const {
  return static_cast<double>(offered) / window_seconds;
}

double LoadResult::achieved_rate() const {
  return static_cast<double>(answered_in_time) / window_seconds;
}

bool LoadResult::KeptUp() const {
  return offered > 0 && static_cast<double>(answered_in_time) >=
                            kRequiredShare * static_cast<double>(offered);
}

}  // namespace attn
