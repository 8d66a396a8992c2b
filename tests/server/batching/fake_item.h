// A request that notes what the batcher did with it.
#pragma once

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "server/batching/batcher.h"

namespace attn {

class FakeItem : public BatchItem {
 public:
  explicit FakeItem(int64_t tokens, Priority priority = Priority::kNormal,
                    absl::Time deadline = absl::InfiniteFuture())
      : tokens_(tokens), priority_(priority), deadline_(deadline) {}

  int64_t tokens() const override { return tokens_; }
  bool immediate() const override { return immediate_; }
  void MakeImmediate() { immediate_ = true; }
  Priority priority() const override { return priority_; }
  absl::Time deadline() const override { return deadline_; }
  absl::Status Check() const override {
    return cancelled_ ? absl::CancelledError() : absl::OkStatus();
  }
  void Start() override { ++starts_; }
  void Refuse(absl::Status status) override {
    status_ = std::move(status);
    ++refusals_;
  }

  void Cancel() { cancelled_ = true; }
  int starts() const { return starts_; }
  int refusals() const { return refusals_; }
  const absl::Status& status() const { return status_; }

 private:
  const int64_t tokens_;
  bool immediate_ = false;
  const Priority priority_;
  const absl::Time deadline_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int> starts_{0};
  std::atomic<int> refusals_{0};
  absl::Status status_;
};

}  // namespace attn
