// Which kind of call each request of a mixed load is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attn {

// A class for each request, drawn by weight. The draw is a function of seed and
// sequence number alone: the same run sends the same requests, whichever thread
// sends them. Immutable: thread-safe.
class LoadMix {
 public:
  // `weights` > 0 and finite; none means one class.
  LoadMix(const std::vector<double>& weights, uint64_t seed);

  // 0 <= class < size().
  size_t ClassOf(int64_t sequence) const;
  size_t size() const { return upper_.size(); }

 private:
  // Where the share of each class ends on the way from 0 to 1.
  std::vector<double> upper_;
  uint64_t seed_;
};

}  // namespace attn
