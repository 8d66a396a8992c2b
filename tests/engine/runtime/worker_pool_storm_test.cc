#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/runtime/worker_pool.h"
#include "gtest/gtest.h"
#include "tests/engine/runtime/fake_clock.h"
#include "tests/engine/runtime/fake_task.h"

namespace attn {
namespace {

// What the pool did with one task of the storm.
struct Record {
  std::unique_ptr<Cancellation> cancellation;
  int64_t jobs_wanted = 0;
  std::atomic<int> begun{0};
  std::atomic<int64_t> started{0};
  std::atomic<int64_t> ended{0};
  std::atomic<int> done{0};
  std::atomic<int> code{-1};
};

// Random tasks from several threads, some of which are cancelled or late.
class Storm {
 public:
  Storm(int submitters, int tasks_each, unsigned seed)
      : records_(static_cast<size_t>(submitters * tasks_each)),
        submitters_(submitters),
        seed_(seed) {}

  // Lets it loose and waits until the last task was submitted.
  void Run(WorkerPool& pool) {
    std::vector<std::thread> threads;
    const size_t each = records_.size() / static_cast<size_t>(submitters_);
    for (int i = 0; i < submitters_; ++i) {
      const size_t begin = static_cast<size_t>(i) * each;
      threads.emplace_back([this, &pool, begin, each, i] {
        std::mt19937 random(seed_ + static_cast<unsigned>(i));
        for (size_t j = begin; j < begin + each; ++j) {
          SubmitOne(pool, records_[j], random);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Call once the pool is gone.
  void ExpectEveryTaskEndedOnce() const {
    for (const Record& record : records_) {
      EXPECT_EQ(record.done, 1);
      EXPECT_EQ(record.started, record.ended);
      EXPECT_LE(record.begun, 1);
      EXPECT_LE(record.started, record.jobs_wanted);
      if (record.code == static_cast<int>(absl::StatusCode::kOk)) {
        EXPECT_EQ(record.begun, 1);
        EXPECT_EQ(record.ended, record.jobs_wanted);
      }
    }
  }
  size_t CountOf(absl::StatusCode code) const {
    size_t count = 0;
    for (const Record& record : records_) {
      count += record.code == static_cast<int>(code) ? 1u : 0u;
    }
    return count;
  }
  size_t size() const { return records_.size(); }

 private:
  void SubmitOne(WorkerPool& pool, Record& record, std::mt19937& random) {
    const bool late = random() % 8 == 0;
    record.cancellation = std::make_unique<Cancellation>(
        clock_, late ? clock_.Now() : absl::InfiniteFuture());
    FakeTaskOptions options;
    options.cancellation = record.cancellation.get();
    options.jobs_per_phase.resize(random() % 4);
    for (int64_t& jobs : options.jobs_per_phase) {
      jobs = static_cast<int64_t>(random() % 9);
      record.jobs_wanted += jobs;
    }
    options.scratch_bytes = random() % 5000;
    const bool cancels_itself = random() % 8 == 0;
    options.begin = [&record] { ++record.begun; };
    options.run = [&record, cancels_itself](int, int64_t job, Arena&) {
      ++record.started;
      if (cancels_itself && job == 4) record.cancellation->Cancel();
      ++record.ended;
    };
    options.done = [&record](const absl::Status& status) {
      EXPECT_EQ(record.started, record.ended);
      record.code = static_cast<int>(status.code());
      ++record.done;
    };
    pool.Submit(std::make_unique<FakeTask>(std::move(options)));
    if (random() % 8 == 0) record.cancellation->Cancel();
  }

  FakeClock clock_;
  std::vector<Record> records_;
  int submitters_;
  unsigned seed_;
};

TEST(WorkerPoolStormTest, EveryTaskIsDoneOnceThoughThePoolStopsMidway) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    FakeClock clock;
    Storm storm(3, 200, seed * 100);
    {
      const auto pool = MakeWorkerPool(static_cast<int>(seed % 4) + 1, clock);
      storm.Run(*pool);
    }
    storm.ExpectEveryTaskEndedOnce();
  }
}

TEST(WorkerPoolStormTest, APoolThatIsNotStoppedLeavesNoTaskBehind) {
  FakeClock clock;
  Storm storm(4, 1000, 12345);
  {
    const auto pool = MakeWorkerPool(3, clock);
    storm.Run(*pool);
    // All have ended when as many are done as were submitted; a job that was
    // lost would leave this waiting for ever, and the test's time limit says
    // so.
    const Cancellation open_ended(clock, absl::InfiniteFuture());
    while (storm.CountOf(static_cast<absl::StatusCode>(-1)) > 0) {
      FakeTaskOptions options;
      options.cancellation = &open_ended;
      SubmitFake(*pool, std::move(options)).wait();
    }
  }
  storm.ExpectEveryTaskEndedOnce();
  const size_t ok = storm.CountOf(absl::StatusCode::kOk);
  const size_t late = storm.CountOf(absl::StatusCode::kDeadlineExceeded);
  const size_t cancelled = storm.CountOf(absl::StatusCode::kCancelled);
  EXPECT_EQ(ok + late + cancelled, storm.size());
  EXPECT_GT(ok, storm.size() / 2);
  EXPECT_GT(late, 0u);
  EXPECT_GT(cancelled, 0u);
}

TEST(WorkerPoolStormTest, SleepingWorkersMissNoTask) {
  // One task at a time: each is submitted while the workers spin, fall asleep
  // or sleep.
  FakeClock clock;
  const Cancellation open_ended(clock, absl::InfiniteFuture());
  const auto pool = MakeWorkerPool(4, clock);
  std::mt19937 random(99);
  for (int i = 0; i < 5000; ++i) {
    FakeTaskOptions options;
    options.cancellation = &open_ended;
    options.jobs_per_phase = {static_cast<int64_t>(random() % 3), 1};
    ASSERT_TRUE(SubmitFake(*pool, std::move(options)).get().ok());
    for (unsigned yields = random() % 4; yields > 0; --yields) {
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace attn
