#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "engine/runtime/worker_pool.h"
#include "gtest/gtest.h"
#include "tests/engine/runtime/fake_clock.h"
#include "tests/engine/runtime/fake_task.h"

namespace attn {
namespace {

int OwnNiceness() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
}

// Of a worker of a pool that was started with it.
int NicenessOfAWorker(int niceness) {
  FakeClock clock;
  const Cancellation open_ended(clock, absl::InfiniteFuture());
  const auto pool = MakeWorkerPool(1, clock, niceness);
  int found = -1;
  FakeTaskOptions options;
  options.cancellation = &open_ended;
  options.jobs_per_phase = {1};
  options.run = [&found](int, int64_t, Arena&) { found = OwnNiceness(); };
  EXPECT_TRUE(SubmitFake(*pool, std::move(options)).get().ok());
  return found;
}

TEST(WorkerNiceness, WorkersAreNicerThanTheirMakerByWhatWasAsked) {
  const int own = OwnNiceness();
  EXPECT_EQ(NicenessOfAWorker(0), own);
  EXPECT_EQ(NicenessOfAWorker(7), std::min(own + 7, 19));
  EXPECT_EQ(NicenessOfAWorker(19), std::min(own + 19, 19));
  EXPECT_EQ(OwnNiceness(), own);
}

}  // namespace
}  // namespace attn
