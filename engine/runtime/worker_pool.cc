#include "engine/runtime/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/runtime/mutex.h"
#include "engine/runtime/one_openmp_thread.h"
#include "engine/runtime/out_of_memory.h"

namespace attn {
namespace {

// New tasks come first, but after so many turns of theirs in a row an older
// task gets one: no flood of small tasks starves a large one.
constexpr int kMaxFreshTurns = 8;

// Scratch that an idle worker keeps; a larger block is given back.
constexpr size_t kKeptScratchBytes = size_t{64} << 20;

constexpr int64_t kNoJob = -1;

struct Phase {
  int index = 0;
  int64_t jobs = 0;
};

// A submitted task and how far it has come. `task`, `scratch_bytes` and
// `phases` do not change; the rest belongs to the pool's mutex.
struct Entry {
  std::unique_ptr<TileTask> task;
  size_t scratch_bytes = 0;
  // Those that have jobs, in order.
  absl::InlinedVector<Phase, 4> phases;

  size_t phase = 0;
  int64_t next_job = 0;
  int64_t running = 0;
  // Whether it stands in `fresh_` or `ready_`, from where jobs are taken.
  bool listed = false;
  // Not OK: no further job starts.
  absl::Status stop;
};

// Nodes move between lists by splice(), which allocates nothing.
using Entries = std::list<Entry>;

// One job on its way through a worker.
struct Claim {
  Entries::iterator entry;
  int phase = 0;
  int64_t job = kNoJob;
  // Begin() comes first, and then the others may join in.
  bool first = false;
  bool has_more = false;
  absl::Status status;
  absl::Duration busy;
};

// One mutex guards all. It is taken once for each job: to hand in the last one
// and to fetch the next. No code of a task runs under it.
//
// Every entry is in one of three lists: `fresh_` (had no turn yet), `ready_`
// (in rotation) or `waiting_` (nothing to hand out until a running job ends).
// Whenever work is listed and a worker sleeps, somebody is on the way who
// will take it or wake another: a woken worker, or one that is about to look.
//
// Workers do not spin before they sleep. Tried with 10, 20 and 50 us on two
// busy cores: who submits often shares its core with the worker it wakes, and
// waits there until the spin is over (15, 25, 55 us for a task of one job).
// Without, the task is done in 5 us.
class Pool final : public WorkerPool {
 public:
  Pool(int workers, const Clock& clock, int niceness);
  ~Pool() override;

  void Submit(std::unique_ptr<TileTask> task) override;
  int worker_count() const override {
    return static_cast<int>(threads_.size());
  }
  absl::Duration busy_time() const override;

 private:
  void Work();
  // Waits for a job. False: the pool stops.
  bool Await(Arena& arena, Claim& claim);
  void TrimIfIdle(Arena& arena);
  void Sleep() ATTN_REQUIRES(mutex_);
  void Run(Claim& claim, Arena& arena);
  // The task's own code of a claim.
  void RunTask(Claim& claim, Arena& arena);
  // Hands in `claim` and fetches the next into it, if there is one.
  bool Exchange(Claim& claim);

  bool HasWork() const ATTN_REQUIRES(mutex_) {
    return !fresh_.empty() || !ready_.empty();
  }
  void List(Entries& from, Entries::iterator entry, Entries& to)
      ATTN_REQUIRES(mutex_);
  // Opens an entry to all after its Begin().
  void Publish(Entries::iterator entry);
  bool TryTake(Claim& claim) ATTN_REQUIRES(mutex_);
  Entries& NextList() ATTN_REQUIRES(mutex_);
  void Finish(Claim& claim, Entries& ended) ATTN_REQUIRES(mutex_);
  // Whether the caller must notify a sleeper once it has let go of the lock.
  bool ShouldWake() ATTN_REQUIRES(mutex_);

  const Clock& clock_;
  const int niceness_;
  mutable Mutex mutex_;
  CondVar wake_;
  Entries fresh_ ATTN_GUARDED_BY(mutex_);
  Entries ready_ ATTN_GUARDED_BY(mutex_);
  Entries waiting_ ATTN_GUARDED_BY(mutex_);
  int fresh_turns_ ATTN_GUARDED_BY(mutex_) = 0;
  // Sleepers nobody has woken yet, and wakes that no sleeper has seen yet.
  int sleeping_ ATTN_GUARDED_BY(mutex_) = 0;
  int wakes_ ATTN_GUARDED_BY(mutex_) = 0;
  bool stopping_ ATTN_GUARDED_BY(mutex_) = false;
  absl::Duration busy_ ATTN_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

Pool::Pool(int workers, const Clock& clock, int niceness)
    : clock_(clock), niceness_(niceness) {
  threads_.reserve(static_cast<size_t>(workers));
  for (int i = 0; i < workers; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

Pool::~Pool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  // Done() may submit the next task, which ends here too.
  for (;;) {
    Entries rest;
    {
      MutexLock lock(mutex_);
      for (Entries* list : {&fresh_, &ready_, &waiting_}) {
        rest.splice(rest.end(), *list);
      }
    }
    if (rest.empty()) return;
    for (Entry& entry : rest) {
      entry.task->Done(absl::CancelledError("the worker pool has stopped"));
    }
  }
}

void Pool::Submit(std::unique_ptr<TileTask> task) {
  Entries fresh(1);
  Entry& entry = fresh.front();
  entry.scratch_bytes = task->scratch_bytes();
  for (int phase = 0; phase < task->phase_count(); ++phase) {
    const int64_t jobs = task->job_count(phase);
    if (jobs > 0) entry.phases.push_back({phase, jobs});
  }
  entry.task = std::move(task);
  bool wake = false;
  {
    MutexLock lock(mutex_);
    List(fresh, fresh.begin(), fresh_);
    wake = ShouldWake();
  }
  if (wake) wake_.NotifyOne();
}

absl::Duration Pool::busy_time() const {
  MutexLock lock(mutex_);
  return busy_;
}

// The calling thread: Linux has a niceness for each.
void BeNicer(int by) {
  if (by == 0) return;
  const auto thread = static_cast<id_t>(gettid());
  const int now = getpriority(PRIO_PROCESS, thread);
  // Nobody is refused to be nicer; the kernel stops at 19.
  setpriority(PRIO_PROCESS, thread, now + by);
}

void Pool::Work() {
  pthread_setname_np(pthread_self(), "attn-worker");
  BeNicer(niceness_);
  const OneOpenMpThread hold;
  Arena arena;
  Claim claim;
  while (Await(arena, claim)) {
    do {
      Run(claim, arena);
    } while (Exchange(claim));
  }
}

bool Pool::Await(Arena& arena, Claim& claim) {
  TrimIfIdle(arena);
  bool wake = false;
  {
    MutexLock lock(mutex_);
    while (!stopping_ && !TryTake(claim)) Sleep();
    if (stopping_) return false;
    wake = ShouldWake();
  }
  if (wake) wake_.NotifyOne();
  return true;
}

void Pool::TrimIfIdle(Arena& arena) {
  if (arena.capacity() <= kKeptScratchBytes) return;
  {
    MutexLock lock(mutex_);
    if (HasWork()) return;
  }
  arena.Trim(kKeptScratchBytes);
}

void Pool::Sleep() {
  ++sleeping_;
  while (wakes_ == 0 && !stopping_) wake_.Wait(mutex_);
  if (wakes_ > 0) --wakes_;
}

void Pool::Run(Claim& claim, Arena& arena) {
  claim.busy = absl::ZeroDuration();
  claim.status = claim.entry->task->cancellation().Check();
  if (!claim.status.ok()) return;
  try {
    RunTask(claim, arena);
  } catch (const std::bad_alloc&) {
    claim.status = OutOfMemory();
  }
}

void Pool::RunTask(Claim& claim, Arena& arena) {
  const Entry& entry = *claim.entry;
  TileTask& task = *entry.task;
  if (claim.first) {
    task.Begin();
    if (claim.has_more) Publish(claim.entry);
  }
  if (claim.job == kNoJob) return;
  const absl::Time start = clock_.Now();
  arena.Reserve(entry.scratch_bytes);
  task.RunJob(claim.phase, claim.job, arena);
  claim.busy = clock_.Now() - start;
}

bool Pool::Exchange(Claim& claim) {
  Entries ended;
  bool taken = false;
  bool wake = false;
  {
    MutexLock lock(mutex_);
    Finish(claim, ended);
    // A finished task's answer goes out before another job starts here.
    taken = ended.empty() && !stopping_ && TryTake(claim);
    wake = ShouldWake();
  }
  if (wake) wake_.NotifyOne();
  for (Entry& entry : ended) entry.task->Done(std::move(entry.stop));
  return taken;
}

void Pool::List(Entries& from, Entries::iterator entry, Entries& to) {
  to.splice(to.end(), from, entry);
  entry->listed = &to != &waiting_;
}

void Pool::Publish(Entries::iterator entry) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    List(waiting_, entry, ready_);
    wake = ShouldWake();
  }
  if (wake) wake_.NotifyOne();
}

Entries& Pool::NextList() {
  const bool fresh =
      !fresh_.empty() && (ready_.empty() || fresh_turns_ < kMaxFreshTurns);
  fresh_turns_ = fresh ? fresh_turns_ + 1 : 0;
  return fresh ? fresh_ : ready_;
}

bool Pool::TryTake(Claim& claim) {
  if (!HasWork()) return false;
  Entries& list = NextList();
  claim.entry = list.begin();
  Entry& entry = *claim.entry;
  claim.first = &list == &fresh_;
  claim.job = kNoJob;
  claim.has_more = false;
  if (entry.phase < entry.phases.size()) {
    const Phase& phase = entry.phases[entry.phase];
    claim.phase = phase.index;
    claim.job = entry.next_job++;
    claim.has_more = entry.next_job < phase.jobs;
  }
  ++entry.running;
  // The rest of a fresh task waits for its Begin().
  const bool rotates = claim.has_more && !claim.first;
  List(list, claim.entry, rotates ? ready_ : waiting_);
  return true;
}

void Pool::Finish(Claim& claim, Entries& ended) {
  Entry& entry = *claim.entry;
  busy_ += claim.busy;
  --entry.running;
  if (!claim.status.ok() && entry.stop.ok()) {
    entry.stop = std::move(claim.status);
    if (entry.listed) List(ready_, claim.entry, waiting_);
  }
  if (entry.running > 0 || entry.listed) return;
  const bool has_next = ++entry.phase < entry.phases.size();
  if (entry.stop.ok() && has_next) {
    entry.next_job = 0;
    List(waiting_, claim.entry, ready_);
    return;
  }
  ended.splice(ended.end(), waiting_, claim.entry);
}

bool Pool::ShouldWake() {
  if (!HasWork() || sleeping_ == 0) return false;
  --sleeping_;
  ++wakes_;
  return true;
}

}  // namespace

std::unique_ptr<WorkerPool> MakeWorkerPool(int workers, const Clock& clock,
                                           int niceness) {
  return std::make_unique<Pool>(workers, clock, niceness);
}

}  // namespace attn
