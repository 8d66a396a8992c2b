#include "tests/testing/variants/formulas.h"

namespace attn::oracle {

std::array<uint32_t, 4> Philox(const std::array<uint32_t, 4>& counter,
                               uint64_t seed) {
  uint32_t c0 = counter[0];
  uint32_t c1 = counter[1];
  uint32_t c2 = counter[2];
  uint32_t c3 = counter[3];
  for (uint32_t round = 0; round < 10; ++round) {
    const uint32_t k0 = static_cast<uint32_t>(seed) + round * 0x9E3779B9U;
    const uint32_t k1 = static_cast<uint32_t>(seed >> 32) + round * 0xBB67AE85U;
    const uint64_t first = uint64_t{0xD2511F53U} * c0;
    const uint64_t second = uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<uint32_t>(second >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(first >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(second);
    c3 = static_cast<uint32_t>(first);
  }
  return {c0, c1, c2, c3};
}

}  // namespace attn::oracle
