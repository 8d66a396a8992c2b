#include "engine/call_group.h"

#include <utility>

namespace attn {

CallGroup::CallGroup(std::vector<std::unique_ptr<CallTask>> calls,
                     const Clock& clock)
    : calls_(std::move(calls)), never_(clock, absl::InfiniteFuture()) {}

void CallGroup::RunJob(int, int64_t job, Arena& arena) {
  const std::unique_ptr<CallTask> call =
      std::move(calls_[static_cast<size_t>(job)]);
  call->RunToEnd(arena);
}

void CallGroup::Done(absl::Status status) {
  for (const auto& call : calls_) {
    if (call != nullptr) call->Done(status);
  }
}

}  // namespace attn
