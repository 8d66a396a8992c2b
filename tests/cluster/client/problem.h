// Calls whose right answers are known before they are made.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"

namespace attn::cluster {

// Values of the normal distribution, the same for the same seed.
HostTensor RandomTensor(const Shape& shape, uint64_t seed);

// Attention of one query, the last token's, over all tokens: by the oracle.
// `keys` and `values` are [tokens, heads, dim] in the order of the tokens.
std::vector<double> LastToken(const HostTensor& q,
                              const std::vector<float>& keys,
                              const std::vector<float>& values);

// Whether `got` is within what F32 can hold of `want`, element by element.
bool IsClose(const HostTensor& got, const std::vector<double>& want);

// One causal call, and what must come back: the oracle's numbers, and the same
// bits each time, whichever server answers. Thread-safe.
class Problem {
 public:
  explicit Problem(uint64_t seed);

  // Views this object.
  const AttendMessage& message() const { return message_; }
  // False for an answer that is not the right one.
  bool IsRight(const AttendResult& answer) const;

 private:
  HostTensor q_;
  HostTensor k_;
  HostTensor v_;
  AttendMessage message_;
  std::vector<double> expected_;
  // The bits of the first answer.
  mutable std::mutex mutex_;
  mutable std::vector<std::byte> bits_;
};

}  // namespace attn::cluster
