// Compiled once for each instruction set, as tile_products.cc.
#include "engine/tile/linear_walk.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/linear_walk.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<double, 8>;
using V = hn::Vec<D>;

constexpr size_t kLanes = hn::MaxLanes(D());
// Columns of the state that are walked at a time: as contiguous rows of two
// vectors they stay in the first cache, whatever d_v is.
constexpr size_t kColumns = 2 * kLanes;
// Tokens, or heads, that pass a row of the state while it is in registers: as
// many as these hold.
constexpr size_t kMaxAtOnce = 4;
constexpr size_t kAtOnce = kLanes == 8 ? kMaxAtOnce : 2;

// One row of kColumns.
struct Pair {
  V low;
  V high;
};

HWY_INLINE Pair LoadPair(const double* from) {
  const D d;
  return {hn::LoadU(d, from), hn::LoadU(d, from + kLanes)};
}

HWY_INLINE void StorePair(const Pair& pair, double* to) {
  const D d;
  hn::StoreU(pair.low, d, to);
  hn::StoreU(pair.high, d, to + kLanes);
}

HWY_INLINE Pair ZeroPair() { return {hn::Zero(D()), hn::Zero(D())}; }

HWY_INLINE Pair MulAddPair(double factor, const Pair& x, const Pair& sum) {
  const V f = hn::Set(D(), factor);
  return {hn::MulAdd(f, x.low, sum.low), hn::MulAdd(f, x.high, sum.high)};
}

HWY_INLINE Pair ScalePair(double factor, const Pair& x) {
  const V f = hn::Set(D(), factor);
  return {hn::Mul(f, x.low), hn::Mul(f, x.high)};
}

// The first `count` of kColumns elements, 0 beyond them; and back.
HWY_INLINE Pair LoadSome(const double* from, size_t count) {
  if (count >= kColumns) return LoadPair(from);
  HWY_ALIGN double all[kColumns] = {};
  std::copy_n(from, count, all);
  return LoadPair(all);
}

HWY_INLINE void StoreSome(const Pair& pair, size_t count, double* to) {
  if (count >= kColumns) return StorePair(pair, to);
  HWY_ALIGN double all[kColumns];
  StorePair(pair, all);
  std::copy_n(all, count, to);
}

// kColumns of the state, as rows.
struct Columns {
  double* state;
  size_t k_dim;
};

// Some vectors phi(q), `stride` elements apart, and what becomes of them.
struct Questions {
  const double* q;
  size_t stride;
  Pair sums[kMaxAtOnce];
};

// sums = phi(q) S of the first kCount questions. Never inlined: the compiler
// then keeps the sums in registers.
template <size_t kCount>
HWY_NOINLINE void Answer(const Columns& columns, Questions* questions) {
  Pair sums[kCount];
  HWY_UNROLL(4)
  for (size_t n = 0; n < kCount; ++n) sums[n] = ZeroPair();
  const double* HWY_RESTRICT q = questions->q;
  const size_t stride = questions->stride;
  const size_t k_dim = columns.k_dim;
  const double* row = columns.state;
  for (size_t i = 0; i < k_dim; ++i, row += kColumns) {
    const Pair s = LoadPair(row);
    HWY_UNROLL(4)
    for (size_t n = 0; n < kCount; ++n) {
      sums[n] = MulAddPair(q[n * stride + i], s, sums[n]);
    }
  }
  HWY_UNROLL(4)
  for (size_t n = 0; n < kCount; ++n) questions->sums[n] = sums[n];
}

// Tokens whose keys are taken one after the other.
struct Tokens {
  const double* phi;    // [tokens, k_dim]
  const double* decay;  // the same
  Pair changes[kMaxAtOnce];
};

// S = diag(decay) S + phi c for each of kCount tokens, and the answer after
// each to its question.
template <size_t kCount, bool kDecays, bool kAnswers>
HWY_NOINLINE void Absorb(const Columns& columns, const Tokens& tokens,
                         Questions* questions) {
  Pair changes[kCount];
  Pair sums[kCount];
  HWY_UNROLL(4)
  for (size_t n = 0; n < kCount; ++n) {
    changes[n] = tokens.changes[n];
    sums[n] = ZeroPair();
  }
  const double* HWY_RESTRICT phi = tokens.phi;
  const double* HWY_RESTRICT decay = tokens.decay;
  const double* HWY_RESTRICT q = questions->q;
  const size_t stride = questions->stride;
  const size_t k_dim = columns.k_dim;
  double* HWY_RESTRICT row = columns.state;
  for (size_t i = 0; i < k_dim; ++i, row += kColumns) {
    Pair s = LoadPair(row);
    HWY_UNROLL(4)
    for (size_t n = 0; n < kCount; ++n) {
      if (kDecays) s = ScalePair(decay[n * k_dim + i], s);
      s = MulAddPair(phi[n * k_dim + i], changes[n], s);
      if (kAnswers) sums[n] = MulAddPair(q[n * stride + i], s, sums[n]);
    }
    StorePair(s, row);
  }
  HWY_UNROLL(4)
  for (size_t n = 0; n < kCount && kAnswers; ++n) questions->sums[n] = sums[n];
}

// The walk of columns [column, column + count) of the state.
class ColumnWalk {
 public:
  ColumnWalk(const LinearWalk& walk, size_t column, size_t count)
      : walk_(walk),
        columns_{walk.scratch, static_cast<size_t>(walk.k_dim)},
        column_(column),
        count_(count) {}

  void Run() {
    const auto v_dim = static_cast<size_t>(walk_.v_dim);
    for (size_t i = 0; i < columns_.k_dim; ++i) {
      StorePair(LoadSome(walk_.state + i * v_dim + column_, count_),
                columns_.state + i * kColumns);
    }
    const int64_t tokens = std::max(walk_.keys, walk_.queries);
    for (int64_t t = 0; t < tokens;) t += Walk(t);
    for (size_t i = 0; i < columns_.k_dim; ++i) {
      StoreSome(LoadPair(columns_.state + i * kColumns), count_,
                walk_.state + i * v_dim + column_);
    }
  }

 private:
  // Takes some tokens from t on and returns how many.
  int64_t Walk(int64_t t) {
    const bool answers = t < walk_.queries && walk_.heads > 0;
    if (t >= walk_.keys) {
      if (walk_.heads == 1) return AnswerTokens(t, walk_.queries - t);
      AnswerHeads(t);
      return 1;
    }
    const int64_t end =
        answers ? std::min(walk_.keys, walk_.queries) : walk_.keys;
    const bool side_by_side = answers && walk_.heads == 1;
    const bool many = walk_.beta == nullptr && (side_by_side || !answers) &&
                      end - t >= static_cast<int64_t>(kAtOnce);
    if (many) {
      AbsorbTokens<kAtOnce>(t, side_by_side);
      return static_cast<int64_t>(kAtOnce);
    }
    AbsorbTokens<1>(t, side_by_side);
    if (answers && !side_by_side) AnswerHeads(t);
    return 1;
  }

  template <size_t kCount>
  void AbsorbTokens(int64_t t, bool answers) {
    const int64_t offset = t * walk_.k_dim;
    Tokens tokens;
    tokens.phi = walk_.k + offset;
    tokens.decay = walk_.decay == nullptr ? nullptr : walk_.decay + offset;
    for (size_t n = 0; n < kCount; ++n) {
      const int64_t row = t + static_cast<int64_t>(n);
      tokens.changes[n] =
          LoadSome(walk_.v + row * walk_.v_dim + Column(), count_);
    }
    if (walk_.beta != nullptr) Correct(t, &tokens);
    Questions questions;
    questions.q = answers ? walk_.q + offset : nullptr;
    questions.stride = columns_.k_dim;
    if (tokens.decay != nullptr) {
      answers ? Absorb<kCount, true, true>(columns_, tokens, &questions)
              : Absorb<kCount, true, false>(columns_, tokens, &questions);
    } else {
      answers ? Absorb<kCount, false, true>(columns_, tokens, &questions)
              : Absorb<kCount, false, false>(columns_, tokens, &questions);
    }
    for (size_t n = 0; n < kCount && answers; ++n) {
      Put(questions.sums[n], 0, t + static_cast<int64_t>(n));
    }
  }

  // c = beta (v - phi S), with S already decayed.
  void Correct(int64_t t, Tokens* tokens) {
    double* phi = walk_.scratch + columns_.k_dim * kColumns;
    for (size_t i = 0; i < columns_.k_dim; ++i) {
      phi[i] = tokens->decay == nullptr ? tokens->phi[i]
                                        : tokens->phi[i] * tokens->decay[i];
    }
    Questions known;
    known.q = phi;
    known.stride = 0;
    Answer<1>(columns_, &known);
    const Pair error = MulAddPair(-1.0, known.sums[0], tokens->changes[0]);
    tokens->changes[0] = ScalePair(walk_.beta[t], error);
  }

  // Of one head: `count` tokens at most.
  int64_t AnswerTokens(int64_t t, int64_t count) {
    Questions questions;
    questions.q = walk_.q + t * walk_.k_dim;
    questions.stride = columns_.k_dim;
    const int64_t answered = AnswerSome(count, &questions);
    for (int64_t n = 0; n < answered; ++n) Put(questions.sums[n], 0, t + n);
    return answered;
  }

  // One token of all heads.
  void AnswerHeads(int64_t t) {
    Questions questions;
    questions.stride = static_cast<size_t>(walk_.queries * walk_.k_dim);
    for (int64_t head = 0; head < walk_.heads;) {
      questions.q = walk_.q + (head * walk_.queries + t) * walk_.k_dim;
      const int64_t answered = AnswerSome(walk_.heads - head, &questions);
      for (int64_t n = 0; n < answered; ++n) {
        Put(questions.sums[n], head + n, t);
      }
      head += answered;
    }
  }

  int64_t AnswerSome(int64_t count, Questions* questions) {
    constexpr auto kMany = static_cast<int64_t>(kAtOnce);
    if (count >= kMany) {
      Answer<kAtOnce>(columns_, questions);
      return kMany;
    }
    Answer<1>(columns_, questions);
    return 1;
  }

  void Put(const Pair& sum, int64_t head, int64_t t) {
    const int64_t row = head * walk_.queries + t;
    StoreSome(sum, count_, walk_.output + row * walk_.v_dim + Column());
  }
  int64_t Column() const { return static_cast<int64_t>(column_); }

  const LinearWalk& walk_;
  Columns columns_;
  size_t column_;
  size_t count_;
};

HWY_INLINE double DotOf(const double* a, const double* b, size_t count) {
  const D d;
  V sum = hn::Zero(d);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

void WalkSum(const LinearWalk& walk) {
  const auto k_dim = static_cast<size_t>(walk.k_dim);
  for (int64_t t = 0; t < std::max(walk.keys, walk.queries); ++t) {
    if (t < walk.keys) {
      const double* phi = walk.k + t * walk.k_dim;
      for (size_t i = 0; i < k_dim; ++i) walk.sum[i] += phi[i];
    }
    for (int64_t h = 0; t < walk.queries && h < walk.heads; ++h) {
      const int64_t at = h * walk.queries + t;
      walk.divisors[at] = DotOf(walk.q + at * walk.k_dim, walk.sum, k_dim);
    }
  }
}

void WalkLinearOf(const LinearWalk& walk) {
  const auto v_dim = static_cast<size_t>(walk.v_dim);
  for (size_t column = 0; column < v_dim; column += kColumns) {
    ColumnWalk(walk, column, std::min(kColumns, v_dim - column)).Run();
  }
  if (walk.sum != nullptr) WalkSum(walk);
}

size_t ScratchOf(size_t k_dim) { return k_dim * (kColumns + 1); }

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(WalkLinearOf);
HWY_EXPORT(ScratchOf);

size_t Size(int64_t count) { return static_cast<size_t>(count); }

}  // namespace

int64_t LinearWalkScratch(int64_t k_dim) {
  return static_cast<int64_t>(HWY_DYNAMIC_DISPATCH(ScratchOf)(Size(k_dim)));
}

void WalkLinear(const LinearWalk& walk) {
  HWY_DYNAMIC_DISPATCH(WalkLinearOf)(walk);
}

}  // namespace attn
#endif  // HWY_ONCE
