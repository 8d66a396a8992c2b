// The memory of all caches of keys and values, within a budget of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attn {

// A block that several sequences may share. Its bytes go back to the pool when
// the last of them lets it go.
using KvBlock = std::shared_ptr<std::byte>;

// Bytes of the budget that are no block; they go back when the last copy goes.
using KvCharge = std::shared_ptr<const void>;

// Large blocks are used again instead of being mapped anew; those below 256 KiB
// are the heap's, as a process may have some 65,000 mappings and no more. The
// budget counts the bytes that were asked for. Thread-safe; must outlive
// nothing: blocks keep what they need of it.
class KvBlockPool {
 public:
  // `max_bytes`: of the blocks in use. At most an eighth of it is kept mapped
  // while idle, in whole blocks.
  explicit KvBlockPool(int64_t max_bytes);

  // A block of `bytes` that holds anything, at a multiple of 64.
  // RESOURCE_EXHAUSTED if the budget or the system does not have it; then
  // nothing was taken.
  absl::StatusOr<KvBlock> Take(int64_t bytes);
  // `count` of them, or none.
  absl::StatusOr<std::vector<KvBlock>> TakeMany(int64_t bytes, int64_t count);

  // Counts `bytes` of memory that somebody else takes against the budget.
  // RESOURCE_EXHAUSTED as Take().
  absl::StatusOr<KvCharge> Charge(int64_t bytes);

  int64_t max_bytes() const;
  // Of charges and of the blocks in use, each once however many share it.
  int64_t used_bytes() const;
  // Mapped, and of no block in use.
  int64_t idle_bytes() const;
  // Gives idle memory back to the system.
  void Trim();

 private:
  struct State;
  absl::Status OverBudget(const std::string& got) const;
  std::shared_ptr<State> state_;
};

}  // namespace attn
