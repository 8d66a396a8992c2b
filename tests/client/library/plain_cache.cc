#include "tests/client/library/plain_cache.h"

namespace attn {
namespace {

// Extents and places of [1, heads, n, dim] or [1, n, heads, dim].
struct RowOrder {
  int64_t heads;
  int64_t tokens;
  int64_t dim;
  bool bshd;

  static RowOrder Of(const HostTensor& rows, bool bshd) {
    return {rows.shape()[bshd ? 2 : 1], rows.shape()[bshd ? 1 : 2],
            rows.shape()[3], bshd};
  }
  int64_t At(int64_t head, int64_t token, int64_t d) const {
    const int64_t row = bshd ? token * heads + head : head * tokens + token;
    return row * dim + d;
  }
};

}  // namespace

void PlainRows::Append(const HostTensor& rows, bool bshd) {
  const RowOrder order = RowOrder::Of(rows, bshd);
  heads = order.heads;
  dim = order.dim;
  for (int64_t t = 0; t < order.tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = 0; d < dim; ++d) {
        values.push_back(rows.At(order.At(h, t, d)));
      }
    }
  }
}

void PlainRows::Truncate(int64_t position) {
  if (position < tokens()) {
    values.resize(static_cast<size_t>(position * heads * dim));
  }
}

HostTensor PlainSight(const HostTensor& q, bool bshd, const PlainCache& cache) {
  const RowOrder from = RowOrder::Of(q, bshd);
  Shape shape = bshd ? Shape{1, from.tokens, from.heads, cache.v.dim}
                     : Shape{1, from.heads, from.tokens, cache.v.dim};
  HostTensor output(q.dtype(), shape);
  const RowOrder to = RowOrder::Of(output, bshd);
  const int64_t before = cache.k.tokens() - from.tokens;
  for (int64_t h = 0; h < from.heads; ++h) {
    const int64_t g = h / (from.heads / cache.k.heads);
    for (int64_t i = 0; i < from.tokens; ++i) {
      for (int64_t d = 0; d < to.dim; ++d) {
        double sum = q.At(from.At(h, i, 0));
        for (int64_t j = 0; j <= before + i; ++j) {
          double token = cache.v.At(g, j, d);
          for (int64_t c = 0; c < cache.k.dim; ++c)
            token += cache.k.At(g, j, c);
          sum += static_cast<double>(j + 1) * token;
        }
        output.Set(to.At(h, i, d), sum);
      }
    }
  }
  return output;
}

}  // namespace attn
