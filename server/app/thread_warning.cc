#include "server/app/thread_warning.h"

#include "absl/strings/str_cat.h"

namespace attn {

std::string ThreadWarning(int compute_threads, const CpuQuota& quota) {
  if (compute_threads == 0 || compute_threads == quota.threads) return "";
  const char* const outcome =
      compute_threads > quota.threads
          ? "they use up the quota early and then wait together"
          : "some of the cores stay idle";
  return absl::StrCat("--compute-threads=", compute_threads, " on ",
                      quota.cores, " cores (", quota.source, "): ", outcome,
                      "; 0 takes ", quota.threads);
}

}  // namespace attn
