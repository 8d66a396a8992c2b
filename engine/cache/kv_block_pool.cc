#include "engine/cache/kv_block_pool.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/block_pool.h"
#include "engine/runtime/mutex.h"
#include "engine/runtime/out_of_memory.h"

namespace attn {
namespace {

constexpr size_t kBlockAlignment = 64;
// From here on a block has a mapping of its own.
constexpr size_t kMinMappedBytes = size_t{256} << 10;
constexpr int64_t kIdleShare = 8;

// The address sanitizer sees the end of a block's life only if it is freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMapsBlocks = false;
#else
constexpr bool kMapsBlocks = true;
#endif

bool IsMapped(int64_t bytes) {
  return kMapsBlocks && static_cast<size_t>(bytes) >= kMinMappedBytes;
}

std::byte* FromHeap(int64_t bytes) {
  void* block = nullptr;
  if (posix_memalign(&block, kBlockAlignment,
                     static_cast<size_t>(std::max<int64_t>(bytes, 1))) != 0) {
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(block);
}

}  // namespace

// Thread-safe.
struct KvBlockPool::State {
  // What a block's pointers share. Not copied.
  struct Owner {
    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      if (start != nullptr) state->Give(start, bytes);
    }

    std::byte* start = nullptr;
    int64_t bytes = 0;
    std::shared_ptr<State> state;
  };

  explicit State(int64_t budget)
      : max_bytes(budget), mapped(static_cast<size_t>(budget / kIdleShare)) {}

  // Books `count` times `bytes`; false: the budget does not have them.
  bool Book(int64_t bytes, int64_t count) ATTN_EXCLUDES(mutex) {
    int64_t all = 0;
    if (__builtin_mul_overflow(bytes, count, &all)) return false;
    const MutexLock lock(mutex);
    if (all > max_bytes - used_bytes) return false;
    used_bytes += all;
    return true;
  }

  void Unbook(int64_t bytes) ATTN_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    used_bytes -= bytes;
  }

  // Of bytes that are booked, and are so still if it throws std::bad_alloc.
  static KvBlock Make(const std::shared_ptr<State>& state, int64_t bytes) {
    // First what may throw: once there is a block it is given back by itself.
    auto owner = std::make_shared<Owner>();
    owner->start = state->Take(bytes);
    owner->bytes = bytes;
    owner->state = state;
    return {owner, owner->start};
  }

  std::byte* Take(int64_t bytes) ATTN_EXCLUDES(mutex) {
    if (!IsMapped(bytes)) return FromHeap(bytes);
    const MutexLock lock(mutex);
    std::byte* const block = mapped.Take(static_cast<size_t>(bytes));
    BoundIdle();
    return block;
  }

  void Give(std::byte* block, int64_t bytes) ATTN_EXCLUDES(mutex) {
    if (IsMapped(bytes)) {
      const MutexLock lock(mutex);
      mapped.Give(block);
      BoundIdle();
    } else {
      std::free(block);
    }
    Unbook(bytes);
  }

  // `mapped` bounds what is in use and idle together. Under the mutex, so that
  // of two the one that looked first does not have the last word.
  void BoundIdle() ATTN_REQUIRES(mutex) {
    mapped.set_max_bytes(mapped.usage().in_use_bytes +
                         static_cast<size_t>(max_bytes / kIdleShare));
  }

  const int64_t max_bytes;
  mutable Mutex mutex;
  int64_t used_bytes ATTN_GUARDED_BY(mutex) = 0;
  BlockPool mapped;
};

KvBlockPool::KvBlockPool(int64_t max_bytes)
    : state_(std::make_shared<State>(std::max<int64_t>(max_bytes, 0))) {}

absl::StatusOr<KvBlock> KvBlockPool::Take(int64_t bytes) {
  absl::StatusOr<std::vector<KvBlock>> blocks = TakeMany(bytes, 1);
  if (!blocks.ok()) return blocks.status();
  return std::move(blocks->front());
}

absl::StatusOr<std::vector<KvBlock>> KvBlockPool::TakeMany(int64_t bytes,
                                                           int64_t count) {
  if (!state_->Book(bytes, count)) {
    return OverBudget(absl::StrCat(count, " blocks of ", bytes));
  }
  std::vector<KvBlock> blocks;
  try {
    blocks.reserve(static_cast<size_t>(count));
    while (std::ssize(blocks) < count) {
      blocks.push_back(State::Make(state_, bytes));
    }
  } catch (const std::bad_alloc&) {
    // Those that were made unbook themselves.
    state_->Unbook(bytes * (count - std::ssize(blocks)));
    return OutOfMemory();
  }
  return blocks;
}

absl::StatusOr<KvCharge> KvBlockPool::Charge(int64_t bytes) {
  struct Booked {
    std::shared_ptr<State> state;
    int64_t bytes = 0;
    Booked() = default;
    Booked(const Booked&) = delete;
    Booked& operator=(const Booked&) = delete;
    ~Booked() {
      if (bytes > 0) state->Unbook(bytes);
    }
  };
  try {
    auto booked = std::make_shared<Booked>();
    booked->state = state_;
    if (!state_->Book(bytes, 1)) return OverBudget(absl::StrCat(bytes));
    booked->bytes = bytes;
    return booked;
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

absl::Status KvBlockPool::OverBudget(const std::string& got) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory for keys and values: got ", got, " bytes, expected at most ",
      max_bytes() - used_bytes(), ", the rest of ", max_bytes(), " bytes"));
}

int64_t KvBlockPool::max_bytes() const { return state_->max_bytes; }

int64_t KvBlockPool::used_bytes() const {
  const MutexLock lock(state_->mutex);
  return state_->used_bytes;
}

int64_t KvBlockPool::idle_bytes() const {
  return static_cast<int64_t>(state_->mapped.usage().idle_bytes);
}

void KvBlockPool::Trim() { state_->mapped.Trim(); }

}  // namespace attn
