#include "server/app/idle_trimmer.h"

#include <utility>

namespace attn {
namespace {

// Less is not worth the trouble.
constexpr int64_t kWorthBytes = int64_t{1} << 20;

}  // namespace

bool IdleWatch::Look(const ProcessLoad& load) {
  const bool quiet = load.requests == 0 && load.computed == computed_;
  computed_ = load.computed;
  // What a trim could not give back may have been a message on its way.
  if (!quiet) least_bytes_ = 0;
  return quiet && load.resident_bytes > least_bytes_ + kWorthBytes;
}

IdleTrimmer::IdleTrimmer(absl::Duration delay,
                         std::function<ProcessLoad()> load,
                         std::function<void()> trim)
    : load_(std::move(load)),
      trim_(std::move(trim)),
      looks_(delay, [this] { Look(); }) {}

void IdleTrimmer::Look() {
  if (!watch_.Look(load_())) return;
  trim_();
  watch_.Trimmed(load_());
}

}  // namespace attn
