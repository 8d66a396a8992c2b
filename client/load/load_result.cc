#include "client/load/load_result.h"

namespace attn {

int64_t CallTally::error_count() const {
  int64_t count = 0;
  for (const auto& [code, times] : errors) count += times;
  return count;
}

double CallTally::achieved_share() const {
  return offered == 0 ? 0
                      : static_cast<double>(answered_in_time) /
                            static_cast<double>(offered);
}

bool CallTally::KeptUp() const {
  return offered > 0 && static_cast<double>(answered_in_time) >=
                            kRequiredShare * static_cast<double>(offered);
}

void CallTally::Merge(const CallTally& other) {
  latency.Merge(other.latency);
  service.Merge(other.service);
  server_queue.Merge(other.server_queue);
  server_compute.Merge(other.server_compute);
  offered += other.offered;
  sent += other.sent;
  answered += other.answered;
  answered_in_time += other.answered_in_time;
  held_back += other.held_back;
  unsent += other.unsent;
  for (const auto& [code, times] : other.errors) errors[code] += times;
  first_errors.insert(other.first_errors.begin(), other.first_errors.end());
  for (const auto& [reason, times] : other.errors_by_reason) {
    errors_by_reason[reason] += times;
  }
}

double LoadResult::RateOf(int64_t count) const {
  return window_seconds > 0 ? static_cast<double>(count) / window_seconds : 0;
}

}  // namespace attn
