#include "proto/codec/stable_digest.h"

#include <cstring>

namespace attn {
namespace {

// The prime of the 64-bit FNV hash, and odd numbers of MurmurHash3's finalizer.
constexpr uint64_t kFnvPrime = 0x100000001b3;
constexpr uint64_t kFinalFirst = 0xff51afd7ed558ccd;
constexpr uint64_t kFinalSecond = 0xc4ceb9fe1a85ec53;
constexpr int kFold = 32;
constexpr int kFinalFold = 33;

}  // namespace

// FNV-1a over words instead of bytes. The fold brings the high bits, which a
// product alone never moves down, back to where the next product spreads them;
// both steps can be undone, so that one other word is always another state.
void StableDigest::Add(uint64_t number) {
  state_ = (state_ ^ number) * kFnvPrime;
  state_ ^= state_ >> kFold;
}

void StableDigest::Add(const std::byte* bytes, size_t size) {
  Add(size);
  uint64_t word = 0;
  for (; size >= sizeof(word); bytes += sizeof(word), size -= sizeof(word)) {
    std::memcpy(&word, bytes, sizeof(word));
    Add(word);
  }
  if (size == 0) return;
  word = 0;
  std::memcpy(&word, bytes, size);
  Add(word);
}

uint64_t StableDigest::value() const {
  uint64_t mixed = (state_ ^ (state_ >> kFinalFold)) * kFinalFirst;
  mixed = (mixed ^ (mixed >> kFinalFold)) * kFinalSecond;
  return mixed ^ (mixed >> kFinalFold);
}

}  // namespace attn
