// A task whose jobs a test writes as functions.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "engine/runtime/worker_pool.h"

namespace attn {

// Everything but `cancellation` may be left out. Thread-compatible.
struct FakeTaskOptions {
  const Cancellation* cancellation = nullptr;
  std::vector<int64_t> jobs_per_phase;
  size_t scratch_bytes = 0;
  std::function<void()> begin;
  std::function<void(int phase, int64_t job, Arena& arena)> run;
  std::function<void(absl::Status)> done;
};

// Thread-safe if the functions are.
class FakeTask final : public TileTask {
 public:
  explicit FakeTask(FakeTaskOptions options) : options_(std::move(options)) {}

  int phase_count() const override {
    return static_cast<int>(options_.jobs_per_phase.size());
  }
  int64_t job_count(int phase) const override {
    return options_.jobs_per_phase[static_cast<size_t>(phase)];
  }
  size_t scratch_bytes() const override { return options_.scratch_bytes; }
  const Cancellation& cancellation() const override {
    return *options_.cancellation;
  }
  void Begin() override {
    if (options_.begin) options_.begin();
  }
  void RunJob(int phase, int64_t job, Arena& arena) override {
    if (options_.run) options_.run(phase, job, arena);
  }
  void Done(absl::Status status) override {
    if (options_.done) options_.done(std::move(status));
  }

 private:
  FakeTaskOptions options_;
};

// Submits the task; the future holds what Done() was given, once `options.done`
// has seen it.
inline std::future<absl::Status> SubmitFake(WorkerPool& pool,
                                            FakeTaskOptions options) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> future = promise->get_future();
  options.done = [promise,
                  done = std::move(options.done)](absl::Status status) {
    if (done) done(status);
    promise->set_value(std::move(status));
  };
  pool.Submit(std::make_unique<FakeTask>(std::move(options)));
  return future;
}

}  // namespace attn
