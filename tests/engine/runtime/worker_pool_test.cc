#include "engine/runtime/worker_pool.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/runtime/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/runtime/fake_clock.h"
#include "tests/engine/runtime/fake_task.h"

#if ATTN_HAVE_GOMP
extern "C" int omp_get_max_threads();
#endif

namespace attn {
namespace {

using ::testing::ElementsAre;

// A list that any thread may append to. Thread-safe.
class Log {
 public:
  void Add(const std::string& entry) {
    MutexLock lock(mutex_);
    entries_.push_back(entry);
  }
  std::vector<std::string> entries() const {
    MutexLock lock(mutex_);
    return entries_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> entries_ ATTN_GUARDED_BY(mutex_);
};

// Tells of the end of the thread that used it: a worker of a pool that stops.
struct OnThreadExit {
  std::counting_semaphore<>* signal = nullptr;
  ~OnThreadExit() {
    if (signal != nullptr) signal->release();
  }
};
thread_local OnThreadExit on_thread_exit;

class WorkerPoolTest : public ::testing::Test {
 protected:
  void Start(int workers) { pool_ = MakeWorkerPool(workers, clock_); }
  FakeTaskOptions Task(std::vector<int64_t> jobs_per_phase) {
    FakeTaskOptions options;
    options.cancellation = &open_ended_;
    options.jobs_per_phase = std::move(jobs_per_phase);
    return options;
  }
  // Lets each of two workers signal its end: as soon as an idle one has, the
  // pool's destructor is at work.
  void ReportExits(std::counting_semaphore<>& exits) {
    std::latch both(2);
    FakeTaskOptions options = Task({2});
    options.run = [&](int, int64_t, Arena&) {
      on_thread_exit.signal = &exits;
      both.arrive_and_wait();
    };
    EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
  }
  // A one-job task that keeps a worker until `release` opens.
  std::future<absl::Status> Occupy(std::latch& started, std::latch& release) {
    FakeTaskOptions options = Task({1});
    options.run = [&](int, int64_t, Arena&) {
      started.count_down();
      release.wait();
    };
    return SubmitFake(*pool_, std::move(options));
  }

  FakeClock clock_;
  Cancellation open_ended_{clock_, absl::InfiniteFuture()};
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerPoolTest, EveryJobOfEveryPhaseRunsOnce) {
  Start(3);
  EXPECT_EQ(pool_->worker_count(), 3);
  const std::vector<int64_t> jobs = {5, 0, 1, 100, 0};
  std::vector<std::atomic<int>> runs(5 * 100);
  FakeTaskOptions options = Task(jobs);
  options.run = [&](int phase, int64_t job, Arena&) {
    ++runs[static_cast<size_t>(phase * 100 + job)];
  };
  EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
  for (int phase = 0; phase < 5; ++phase) {
    for (int64_t job = 0; job < 100; ++job) {
      EXPECT_EQ(runs[static_cast<size_t>(phase * 100 + job)],
                job < jobs[static_cast<size_t>(phase)] ? 1 : 0)
          << phase << " " << job;
    }
  }
}

TEST_F(WorkerPoolTest, BeginComesBeforeTheFirstJobAndDoneAfterTheLast) {
  Start(2);
  for (const std::vector<int64_t>& jobs :
       {std::vector<int64_t>{20, 20}, {1}, {0, 1}, {0, 0}, {}}) {
    std::atomic<int> begun{0};
    std::atomic<int> ended{0};
    FakeTaskOptions options = Task(jobs);
    options.begin = [&] { ++begun; };
    options.run = [&](int, int64_t, Arena&) {
      EXPECT_EQ(begun, 1);
      ++ended;
    };
    int64_t total = 0;
    for (const int64_t count : jobs) total += count;
    options.done = [&](const absl::Status&) {
      EXPECT_EQ(begun, 1);
      EXPECT_EQ(ended, total);
    };
    EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
  }
}

TEST_F(WorkerPoolTest, JobsOfAPhaseRunOnSeveralWorkersAtOnce) {
  Start(3);
  // No job ends before all three run.
  std::latch together(3);
  FakeTaskOptions options = Task({3});
  options.run = [&](int, int64_t, Arena&) { together.arrive_and_wait(); };
  EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
}

TEST_F(WorkerPoolTest, EveryPhaseSpreadsOverAllWorkers) {
  Start(3);
  std::latch first(3);
  std::latch last(3);
  FakeTaskOptions options = Task({3, 1, 3});
  options.run = [&](int phase, int64_t, Arena&) {
    if (phase != 1) (phase == 0 ? first : last).arrive_and_wait();
  };
  EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
}

TEST_F(WorkerPoolTest, APhaseStartsAfterAllOfTheOneBeforeEnded) {
  Start(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> values(64, 0);
    FakeTaskOptions options = Task({64, 64, 64});
    // Each job reads a neighbour's number of the phase before, without a lock.
    options.run = [&](int phase, int64_t job, Arena&) {
      const auto i = static_cast<size_t>(job);
      if (phase != 1) {
        EXPECT_EQ(values[i], phase == 0 ? 0 : 1);
        values[i] = phase + 1;
        return;
      }
      EXPECT_EQ(values[(i + 1) % 64], 1);
    };
    EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
    EXPECT_EQ(values, std::vector<int>(64, 3));
  }
}

TEST_F(WorkerPoolTest, ASmallTaskBehindALargeOneGetsTheNextFreeWorker) {
  Start(1);
  std::latch large_runs(1);
  std::latch small_waits(1);
  std::atomic<int> large_jobs{0};
  int before_small = -1;
  FakeTaskOptions large = Task({1000});
  large.run = [&](int, int64_t job, Arena&) {
    ++large_jobs;
    if (job != 10) return;
    large_runs.count_down();
    small_waits.wait();
  };
  std::future<absl::Status> large_done = SubmitFake(*pool_, std::move(large));
  large_runs.wait();
  FakeTaskOptions small = Task({1});
  small.run = [&](int, int64_t, Arena&) { before_small = large_jobs; };
  std::future<absl::Status> small_done = SubmitFake(*pool_, std::move(small));
  small_waits.count_down();
  EXPECT_TRUE(small_done.get().ok());
  EXPECT_TRUE(large_done.get().ok());
  // Jobs 0 to 10 were under way; the worker's next one was the small task's.
  EXPECT_EQ(before_small, 11);
  EXPECT_EQ(large_jobs, 1000);
}

TEST_F(WorkerPoolTest, TasksTakeTurns) {
  Start(1);
  std::latch occupied(1);
  std::latch release(1);
  std::future<absl::Status> blocker = Occupy(occupied, release);
  occupied.wait();
  Log log;
  std::vector<std::future<absl::Status>> done;
  for (const std::string name : {"a", "b", "c"}) {
    FakeTaskOptions options = Task({name == "b" ? 1 : 3});
    options.run = [&log, name](int, int64_t job, Arena&) {
      log.Add(name + std::to_string(job));
    };
    done.push_back(SubmitFake(*pool_, std::move(options)));
  }
  release.count_down();
  for (auto& future : done) EXPECT_TRUE(future.get().ok());
  EXPECT_THAT(log.entries(),
              ElementsAre("a0", "b0", "c0", "a1", "c1", "a2", "c2"));
}

TEST_F(WorkerPoolTest, AFloodOfSmallTasksDoesNotStarveALargeOne) {
  Start(1);
  std::latch occupied(1);
  std::latch release(1);
  FakeTaskOptions large = Task({5});
  std::atomic<int> small_done{0};
  std::vector<int> small_before_job;
  large.run = [&](int, int64_t job, Arena&) {
    small_before_job.push_back(small_done);
    if (job != 0) return;
    occupied.count_down();
    release.wait();
  };
  std::vector<std::future<absl::Status>> done;
  done.push_back(SubmitFake(*pool_, std::move(large)));
  occupied.wait();
  for (int i = 0; i < 100; ++i) {
    FakeTaskOptions small = Task({1});
    small.run = [&](int, int64_t, Arena&) { ++small_done; };
    done.push_back(SubmitFake(*pool_, std::move(small)));
  }
  release.count_down();
  for (auto& future : done) EXPECT_TRUE(future.get().ok());
  ASSERT_EQ(small_before_job.size(), 5u);
  // worker_pool.h: up to eight turns of new tasks in a row. The large task's
  // own first turn was one of the first eight.
  EXPECT_LE(small_before_job[1], 8);
  for (size_t job = 2; job < 5; ++job) {
    EXPECT_LE(small_before_job[job] - small_before_job[job - 1], 8) << job;
  }
}

TEST_F(WorkerPoolTest, ACancelledTaskStartsNoFurtherJob) {
  Start(1);
  Cancellation cancellation(clock_, absl::InfiniteFuture());
  std::atomic<int> jobs{0};
  FakeTaskOptions options = Task({10, 10});
  options.cancellation = &cancellation;
  options.run = [&](int, int64_t job, Arena&) {
    ++jobs;
    if (job == 3) cancellation.Cancel();
  };
  EXPECT_EQ(SubmitFake(*pool_, std::move(options)).get().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(jobs, 4);
}

TEST_F(WorkerPoolTest, ACancelledTaskWaitsForItsRunningJobs) {
  Start(2);
  Cancellation cancellation(clock_, absl::InfiniteFuture());
  std::latch both(2);
  std::atomic<int> running{0};
  FakeTaskOptions options = Task({100});
  options.cancellation = &cancellation;
  options.run = [&](int, int64_t, Arena&) {
    ++running;
    both.arrive_and_wait();
    cancellation.Cancel();
    --running;
  };
  options.done = [&](const absl::Status&) { EXPECT_EQ(running, 0); };
  EXPECT_EQ(SubmitFake(*pool_, std::move(options)).get().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(WorkerPoolTest, ATaskThatIsLateBeforeItStartsNeverBegins) {
  Start(1);
  std::latch occupied(1);
  std::latch release(1);
  std::future<absl::Status> blocker = Occupy(occupied, release);
  occupied.wait();
  Cancellation cancellation(clock_, clock_.Now() + absl::Seconds(1));
  FakeTaskOptions options = Task({3});
  options.cancellation = &cancellation;
  options.begin = [] { ADD_FAILURE() << "began"; };
  options.run = [](int, int64_t, Arena&) { ADD_FAILURE() << "ran"; };
  std::future<absl::Status> late = SubmitFake(*pool_, std::move(options));
  clock_.Advance(absl::Seconds(1));
  release.count_down();
  EXPECT_EQ(late.get().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(WorkerPoolTest, ADeadlineThatPassesBetweenJobsEndsTheTask) {
  Start(1);
  Cancellation cancellation(clock_, clock_.Now() + absl::Seconds(5));
  std::atomic<int> jobs{0};
  FakeTaskOptions options = Task({100});
  options.cancellation = &cancellation;
  options.run = [&](int, int64_t, Arena&) {
    ++jobs;
    clock_.Advance(absl::Seconds(2));
  };
  EXPECT_EQ(SubmitFake(*pool_, std::move(options)).get().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(jobs, 3);
}

TEST_F(WorkerPoolTest, ATaskWhoseJobsAllRanIsOkEvenIfItIsLateByThen) {
  Start(1);
  Cancellation cancellation(clock_, clock_.Now() + absl::Seconds(1));
  FakeTaskOptions options = Task({1});
  options.cancellation = &cancellation;
  options.run = [&](int, int64_t, Arena&) { clock_.Advance(absl::Seconds(2)); };
  EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
}

TEST_F(WorkerPoolTest, DestructionWaitsForRunningJobsAndCancelsTheRest) {
  std::counting_semaphore<> exits(0);
  std::latch running(1);
  std::atomic<bool> ended{false};
  std::future<absl::Status> queued_done;
  Start(2);
  WorkerPool* const pool = pool_.get();
  ReportExits(exits);
  FakeTaskOptions options = Task({1, 100});
  options.run = [&](int phase, int64_t, Arena&) {
    EXPECT_EQ(phase, 0);
    running.count_down();
    exits.acquire();
    FakeTaskOptions queued = Task({1});
    queued.begin = [] { ADD_FAILURE() << "began"; };
    queued_done = SubmitFake(*pool, std::move(queued));
    ended = true;
  };
  std::future<absl::Status> first = SubmitFake(*pool, std::move(options));
  running.wait();
  pool_.reset();
  EXPECT_TRUE(ended);
  EXPECT_EQ(first.get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(queued_done.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(WorkerPoolTest, TheLastJobOfATaskCountsEvenIfThePoolStops) {
  std::counting_semaphore<> exits(0);
  std::latch running(1);
  Start(2);
  ReportExits(exits);
  FakeTaskOptions options = Task({1});
  options.run = [&](int, int64_t, Arena&) {
    running.count_down();
    exits.acquire();
  };
  std::future<absl::Status> done = SubmitFake(*pool_, std::move(options));
  running.wait();
  pool_.reset();
  EXPECT_TRUE(done.get().ok());
}

TEST_F(WorkerPoolTest, WhatDoneSubmitsDuringDestructionIsCancelledToo) {
  std::counting_semaphore<> exits(0);
  std::latch running(1);
  Start(2);
  WorkerPool* const pool = pool_.get();
  ReportExits(exits);
  std::atomic<int> cancelled{0};
  std::function<void(absl::Status)> next = [&](const absl::Status& status) {
    if (absl::IsCancelled(status)) ++cancelled;
    if (cancelled == 5) return;
    FakeTaskOptions options = Task({1});
    options.done = next;
    pool->Submit(std::make_unique<FakeTask>(std::move(options)));
  };
  FakeTaskOptions options = Task({1});
  options.run = [&](int, int64_t, Arena&) {
    running.count_down();
    exits.acquire();
  };
  options.done = next;
  pool->Submit(std::make_unique<FakeTask>(std::move(options)));
  running.wait();
  pool_.reset();
  EXPECT_EQ(cancelled, 5);
}

TEST_F(WorkerPoolTest, ATaskIsDestroyedAfterDone) {
  Start(1);
  std::promise<void> destroyed;
  std::atomic<bool> done{false};
  {
    // The task's functions hold the only reference to it in the end.
    const std::shared_ptr<void> token(nullptr, [&](void*) {
      EXPECT_TRUE(done);
      destroyed.set_value();
    });
    FakeTaskOptions options = Task({1});
    options.run = [token](int, int64_t, Arena&) {};
    options.done = [&done](const absl::Status&) { done = true; };
    pool_->Submit(std::make_unique<FakeTask>(std::move(options)));
  }
  destroyed.get_future().wait();
}

TEST_F(WorkerPoolTest, AJobFindsTheScratchItsTaskAskedFor) {
  Start(2);
  std::vector<std::future<absl::Status>> done;
  for (const size_t bytes : {100, 1 << 20, 0, 4096, 100}) {
    FakeTaskOptions options = Task({20});
    options.scratch_bytes = bytes;
    options.run = [bytes](int, int64_t job, Arena& arena) {
      // All of it, in each job: the pool starts afresh every time.
      auto* const scratch = arena.Allocate<std::byte>(bytes);
      std::memset(scratch, static_cast<int>(job), bytes);
    };
    done.push_back(SubmitFake(*pool_, std::move(options)));
  }
  for (auto& future : done) EXPECT_TRUE(future.get().ok());
}

TEST_F(WorkerPoolTest, BusyTimeIsTheTimeInJobs) {
  Start(1);
  EXPECT_EQ(pool_->busy_time(), absl::ZeroDuration());
  FakeTaskOptions options = Task({3, 2});
  options.begin = [this] { clock_.Advance(absl::Seconds(100)); };
  options.run = [this](int, int64_t, Arena&) {
    clock_.Advance(absl::Milliseconds(7));
  };
  absl::Duration at_done;
  options.done = [&](const absl::Status&) { at_done = pool_->busy_time(); };
  EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
  EXPECT_EQ(at_done, absl::Milliseconds(35));
}

TEST_F(WorkerPoolTest, DoneMaySubmitTheNextTask) {
  Start(1);
  std::promise<int> last;
  std::function<void(int)> submit = [&](int left) {
    FakeTaskOptions options = Task({1});
    options.done = [&, left](const absl::Status&) {
      left == 0 ? last.set_value(42) : submit(left - 1);
    };
    pool_->Submit(std::make_unique<FakeTask>(std::move(options)));
  };
  submit(1000);
  EXPECT_EQ(last.get_future().get(), 42);
}

#if ATTN_HAVE_GOMP
TEST_F(WorkerPoolTest, OpenMpHasOneThreadInEachWorker) {
  Start(2);
  std::latch together(2);
  FakeTaskOptions options = Task({2});
  options.run = [&](int, int64_t, Arena&) {
    together.arrive_and_wait();
    EXPECT_EQ(omp_get_max_threads(), 1);
  };
  EXPECT_TRUE(SubmitFake(*pool_, std::move(options)).get().ok());
}
#endif

}  // namespace
}  // namespace attn
