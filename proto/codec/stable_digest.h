// A digest of 64 bits that is the same in every process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attn {

// Tells contents apart that came by accident, as a client's retry from another
// request; two that were made to collide do. What is added is told apart by its
// order and its lengths too. A value.
class StableDigest {
 public:
  void Add(uint64_t number);
  // The bytes and how many they are. Reads 8 at a time.
  void Add(const std::byte* bytes, size_t size);
  uint64_t value() const;

 private:
  uint64_t state_ = 0;
};

}  // namespace attn
