// A cache of keys and values that can be reckoned with by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "client/library/host_tensor.h"

namespace attn {

// Rows of heads, token by token. A value.
struct PlainRows {
  int64_t heads = 0;
  int64_t dim = 0;
  std::vector<double> values;

  int64_t tokens() const {
    return heads == 0 ? 0 : static_cast<int64_t>(values.size()) / heads / dim;
  }
  double At(int64_t head, int64_t token, int64_t d) const {
    return values[static_cast<size_t>((token * heads + head) * dim + d)];
  }
  // Of a tensor [1, heads, n, dim], or [1, n, heads, dim] if `bshd`.
  void Append(const HostTensor& rows, bool bshd);
  void Truncate(int64_t position);
};

// One layer.
struct PlainCache {
  PlainRows k;
  PlainRows v;

  void Truncate(int64_t position) {
    k.Truncate(position);
    v.Truncate(position);
  }
};

// What the last n tokens of a cache see in the tests' stead of attention, of
// the shape of q but for the width: o[h, i, d] = q[h, i, 0] + sum over j up to
// token i of (j + 1) (v[g, j, d] + sum of k[g, j]), g the KV head of h. It
// depends on every token and on their order, and is exact for small whole
// numbers.
HostTensor PlainSight(const HostTensor& q, bool bshd, const PlainCache& cache);

}  // namespace attn
