// Values by name in a table that only grows.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn {

// At most `capacity` values, which stay where they are. Thread-safe; only those
// who add wait, for one another.
template <typename Value>
class NameTable {
 public:
  explicit NameTable(size_t capacity)
      : slots_(std::bit_ceil(2 * capacity + 1)), entries_(capacity) {}

  // Null if there is none of that name.
  Value* Find(std::string_view name) const {
    const size_t mask = slots_.size() - 1;
    // Half of the slots are empty: the search ends.
    for (size_t slot = std::hash<std::string_view>{}(name);; ++slot) {
      Entry* entry = slots_[slot & mask].load(std::memory_order_acquire);
      if (entry == nullptr || entry->name == name) {
        return entry == nullptr ? nullptr : entry->value.get();
      }
    }
  }

  // What is there, or what `make()` gives as a unique_ptr; null, and nothing
  // made, if there is no room. `make` may not use the table.
  template <typename Make>
  Value* FindOrAdd(std::string_view name, Make make) {
    Value* found = Find(name);
    if (found != nullptr || size() == entries_.size()) return found;
    const std::lock_guard lock(adding_);
    found = Find(name);
    const size_t count = size();
    if (found != nullptr || count == entries_.size()) return found;
    std::unique_ptr<Value> value = make();
    // Nothing to count where `make` found no room for it.
    if (value == nullptr) return nullptr;
    entries_[count] =
        std::make_unique<Entry>(Entry{std::string(name), std::move(value)});
    Publish(*entries_[count]);
    size_.store(count + 1, std::memory_order_release);
    return entries_[count]->value.get();
  }

  size_t size() const { return size_.load(std::memory_order_acquire); }

  // Calls visit(value) for each, in the order in which they came.
  template <typename Visit>
  void ForEach(Visit visit) const {
    const size_t count = size();
    for (size_t i = 0; i < count; ++i)
      visit(std::as_const(*entries_[i]->value));
  }

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Value> value;
  };

  void Publish(Entry& entry) {
    const size_t mask = slots_.size() - 1;
    size_t slot = std::hash<std::string_view>{}(entry.name);
    while (slots_[slot & mask].load(std::memory_order_relaxed) != nullptr) {
      ++slot;
    }
    slots_[slot & mask].store(&entry, std::memory_order_release);
  }

  std::vector<std::atomic<Entry*>> slots_;
  // The first size_ of them are there; those do not change any more.
  std::vector<std::unique_ptr<Entry>> entries_;
  std::atomic<size_t> size_{0};
  std::mutex adding_;
};

}  // namespace attn
