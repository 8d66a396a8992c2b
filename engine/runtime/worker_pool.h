// The only compute threads of the process. The unit of scheduling is a tile
// job (request x head x query block), not a request.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/runtime/arena.h"
#include "engine/runtime/cancellation.h"

namespace attn {

// One request's work: phases that run one after the other, each a set of
// independent jobs. The pool calls it; see WorkerPool for when.
class TileTask {
 public:
  virtual ~TileTask() = default;

  virtual int phase_count() const = 0;
  // Jobs of a phase; may be 0. This and scratch_bytes() are read once, by
  // Submit().
  virtual int64_t job_count(int phase) const = 0;
  // Arena bytes that any job of the task needs.
  virtual size_t scratch_bytes() const = 0;
  // Looked at before each job.
  virtual const Cancellation& cancellation() const = 0;

  // Once, on a worker, before the first job or, if there is none, before
  // Done(). Not called if the task is cancelled or late by then.
  // This and RunJob() may throw std::bad_alloc, which ends the task with
  // OutOfMemory().
  virtual void Begin() = 0;
  // One job. Jobs of a phase run at once on several workers, in any order.
  virtual void RunJob(int phase, int64_t job, Arena& arena) = 0;
  // Exactly once, after the last job that will run: OK, or why the rest was
  // left out. Runs on a worker (or inside ~WorkerPool with CANCELLED).
  virtual void Done(absl::Status status) = 0;
};

// Invariants:
//  * a free worker takes the next job of the next task in rotation; a new task
//    comes before those that had a turn (up to eight such turns in a row), so a
//    small task that arrives behind a large one gets the next free worker;
//  * the jobs of phase p+1 start after all of phase p ended;
//  * after a task's cancellation no further job of it starts, nor when there
//    was no memory for one of them;
//  * Done() is called exactly once for each task that was submitted.
// Thread-safe.
class WorkerPool {
 public:
  virtual ~WorkerPool() = default;

  // Never waits for a job. The task is destroyed after Done() returned.
  virtual void Submit(std::unique_ptr<TileTask> task) = 0;
  virtual int worker_count() const = 0;
  // Wall time that workers spent in jobs, all together, since the start.
  virtual absl::Duration busy_time() const = 0;
};

// Starts `workers` threads (>= 1), by `niceness` (0 to 19) nicer than the
// thread that calls. OpenMP is held to one thread in each. Destruction waits
// for running jobs and ends queued tasks with CANCELLED.
std::unique_ptr<WorkerPool> MakeWorkerPool(int workers, const Clock& clock,
                                           int niceness = 0);

}  // namespace attn
