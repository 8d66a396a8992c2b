// Compiled once for each instruction set, as row_math.cc.
#include "engine/tile/row_stream.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/tile/row_stream.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "engine/tile/stored_rows-inl.h"
#include "engine/tile/vector_math-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

// Of the few rows, so many share a load of a stored row: with four stored rows
// at a time their sums and operands fill the registers.
constexpr int kMaxFew = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr size_t kRows = kStreamRows;

// How far ahead stored rows are fetched, in bytes. Measured on Zen 4 with 128
// MiB of f32 rows: 11 GB/s without, 27 with 1 KiB, 29 with 4 KiB or more, of 33
// that plain loads reach.
constexpr size_t kAheadBytes = 4096;
constexpr size_t kLineBytes = 64;

// Stored rows of one type.
template <class S>
struct Rows {
  const typename S::Element* data;
  size_t stride;
  size_t count;
  size_t width;
  const char* next;

  // kRows rows from `row` on; in place of those beyond the end the last one.
  HWY_INLINE void Take(size_t row,
                       const typename S::Element* (&of)[kRows]) const {
    const size_t last = count - row - 1;
    of[0] = data + row * stride;
    of[1] = of[0] + std::min<size_t>(last, 1) * stride;
    of[2] = of[0] + std::min<size_t>(last, 2) * stride;
    of[3] = of[0] + std::min<size_t>(last, 3) * stride;
  }
};

// Fetches the rows that come kAheadBytes later, one after the other and line by
// line, so that the machine sees that memory is read in order: a step for each
// vector of kRows rows. Measured: the same lines in another order, or steps
// that wait for a division, cost a third of the speed.
template <class S, int kFew>
class Ahead {
 public:
  explicit Ahead(const Rows<S>& rows)
      : row_bytes_(Bytes(rows.width)),
        turn_(Bytes(rows.stride - rows.width)),
        group_(kRows * Bytes(rows.stride)) {
    const size_t ahead =
        std::max(kAheadBytes / std::max(Bytes(rows.width), kLineBytes), kRows);
    next_ =
        reinterpret_cast<const char*>(rows.data) + ahead * Bytes(rows.stride);
    if (rows.next == nullptr) return;
    jump_ = rows.next;
    groups_ = rows.count > ahead ? (rows.count - ahead) / kRows : 0;
  }
  // Before the steps of each group of rows.
  HWY_INLINE void Begin() {
    if (jump_ != nullptr && groups_-- == 0) next_ = jump_;
    at_ = next_;
    next_ += group_;
    left_ = row_bytes_;
  }
  HWY_INLINE void Step() {
    for (size_t b = 0; b < kStep; b += kLineBytes) {
      hwy::Prefetch(at_ + b);
      if (kIsFar) __builtin_prefetch(at_ + b + kAheadBytes, 0, kSecondCache);
    }
    at_ += kStep;
    if (turn_ == 0) return;
    if (left_ > kStep) {
      left_ -= kStep;
    } else {
      left_ = row_bytes_;
      at_ += turn_;
    }
  }

 private:
  // With one row there is so little to do that the nearest cache cannot have
  // enough lines on their way: 94 % of what plain loads reach instead of 79.
  // With four it costs a fifth.
  static constexpr bool kIsFar = kFew == 1;
  static constexpr int kSecondCache = 2;
  static constexpr size_t kStep =
      kRows * sizeof(typename S::Element) * S::Product::kElements;
  static constexpr size_t Bytes(size_t elements) {
    return elements * sizeof(typename S::Element);
  }

  size_t row_bytes_;
  size_t turn_;
  size_t group_;
  const char* next_;
  const char* at_ = nullptr;
  size_t left_ = 0;
  // Where to go on, after so many groups of rows.
  const char* jump_ = nullptr;
  size_t groups_ = 0;
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void StoreSums(const V (&of)[kRows], float* to) {
  for (size_t i = 0; i < kRows; ++i) to[i] = hn::GetLane(of[i]);
}
#else
using Four = hn::Full128<float>;

// The sum of a vector's blocks of four.
template <class DV>
HWY_INLINE hn::Vec<Four> SumOfBlocks(DV d, hn::Vec<DV> v) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    return v;
  } else {
    const hn::Half<DV> half;
    return SumOfBlocks(half,
                       hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

HWY_INLINE V AddInterleaved(V a, V b) {
  const D d;
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

// The sums of four vectors' lanes, side by side.
HWY_INLINE void StoreSums(const V (&of)[kRows], float* to) {
  const D d;
  const hn::RepartitionToWide<D> pairs;
  const auto a = hn::BitCast(pairs, AddInterleaved(of[0], of[1]));
  const auto b = hn::BitCast(pairs, AddInterleaved(of[2], of[3]));
  const V sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)),
                         hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)));
  hn::StoreU(SumOfBlocks(d, sums), Four(), to);
}
#endif

// Where a kernel below is: the few rows from one on, of the type that products
// take, and their stride in elements.
struct FewAt {
  const void* few;
  size_t few_stride;
  float* result;
  size_t result_stride;
};

template <class S, int kFew>
HWY_NOINLINE void Dot(const FewAt& at, const Rows<S>& rows) {
  using Product = typename S::Product;
  using Operand = typename Product::Operand;
  constexpr size_t kStep = Product::kElements;
  const auto* few = static_cast<const typename Product::Few*>(at.few);
  const size_t whole = rows.width / kStep * kStep;
  Ahead<S, kFew> ahead(rows);
  for (size_t row = 0; row < rows.count; row += kRows) {
    const typename S::Element* k[kRows];
    rows.Take(row, k);
    ahead.Begin();
    V sums[kFew][kRows];
    for (auto& of_row : sums) {
      for (V& sum : of_row) sum = hn::Zero(D());
    }
    const auto add = [&](size_t c, const Operand(&x)[kRows]) HWY_ATTR {
      for (size_t r = 0; r < size_t{kFew}; ++r) {
        const Operand q = Product::LoadFew(few + r * at.few_stride + c);
        for (size_t i = 0; i < kRows; ++i) {
          sums[r][i] = Product::MulAdd(x[i], q, sums[r][i]);
        }
      }
    };
    size_t c = 0;
    for (; c < whole; c += kStep) {
      ahead.Step();
      add(c, {S::Load(k[0] + c), S::Load(k[1] + c), S::Load(k[2] + c),
              S::Load(k[3] + c)});
    }
    if (const size_t rest = rows.width - whole; rest != 0) {
      add(c, {S::LoadRest(k[0] + c, rest), S::LoadRest(k[1] + c, rest),
              S::LoadRest(k[2] + c, rest), S::LoadRest(k[3] + c, rest)});
    }
    for (size_t r = 0; r < size_t{kFew}; ++r) {
      StoreSums(sums[r], at.result + r * at.result_stride + row);
    }
  }
}

template <class S, int kFew>
HWY_NOINLINE void Add(const FewAt& at, const Rows<S>& rows) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const size_t whole = rows.width / lanes * lanes;
  const auto* few = static_cast<const float*>(at.few);
  Ahead<S, kFew> ahead(rows);
  for (size_t row = 0; row < rows.count; row += kRows) {
    const typename S::Element* v[kRows];
    rows.Take(row, v);
    ahead.Begin();
    V weights[kFew][kRows];
    for (size_t r = 0; r < size_t{kFew}; ++r) {
      for (size_t i = 0; i < kRows; ++i) {
        weights[r][i] = hn::Set(d, few[r * at.few_stride + row + i]);
      }
    }
    const auto add = [&](size_t c, const V(&x)[kRows]) HWY_ATTR {
      for (size_t r = 0; r < size_t{kFew}; ++r) {
        float* to = at.result + r * at.result_stride + c;
        V sum = hn::LoadU(d, to);
        for (size_t i = 0; i < kRows; ++i) {
          sum = hn::MulAdd(x[i], weights[r][i], sum);
        }
        hn::StoreU(sum, d, to);
      }
    };
    size_t c = 0;
    for (; c < whole; c += lanes) {
      ahead.Step();
      add(c, {S::Load(v[0] + c), S::Load(v[1] + c), S::Load(v[2] + c),
              S::Load(v[3] + c)});
    }
    if (const size_t rest = rows.width - whole; rest != 0) {
      add(c, {S::LoadRest(v[0] + c, rest), S::LoadRest(v[1] + c, rest),
              S::LoadRest(v[2] + c, rest), S::LoadRest(v[3] + c, rest)});
    }
  }
}

struct DotOp {
  template <class S, int kFew>
  static void Run(const FewAt& at, const Rows<S>& rows) {
    Dot<S, kFew>(at, rows);
  }
};

struct AddOp {
  template <class S, int kFew>
  static void Run(const FewAt& at, const Rows<S>& rows) {
    Add<S, kFew>(at, rows);
  }
};

// Takes the few rows up to kMaxFew at a time.
template <class Op, class S>
void ForFew(FewAt at, size_t few, const RowStream& stream) {
  const Rows<S> rows{reinterpret_cast<const typename S::Element*>(stream.data),
                     static_cast<size_t>(stream.stride),
                     static_cast<size_t>(stream.rows),
                     static_cast<size_t>(stream.width),
                     reinterpret_cast<const char*>(stream.next)};
  while (few > 0) {
    const size_t taken = std::min<size_t>(few, kMaxFew);
    if (taken == 1) Op::template Run<S, 1>(at, rows);
    if (taken == 2) Op::template Run<S, 2>(at, rows);
    if constexpr (kMaxFew > 2) {
      if (taken == 3) Op::template Run<S, 3>(at, rows);
      if (taken == 4) Op::template Run<S, 4>(at, rows);
    }
    few -= taken;
    at.few = static_cast<const typename S::Product::Few*>(at.few) +
             taken * at.few_stride;
    at.result += taken * at.result_stride;
  }
}

template <class Op>
void ForType(const FewRows& few, const RowStream& stream, float* result,
             size_t result_stride) {
  if (stream.rows == 0) return;
  const FewAt at{few.data, static_cast<size_t>(few.stride), result,
                 result_stride};
  const auto count = static_cast<size_t>(few.rows);
  if (stream.dtype == DType::kF32)
    ForFew<Op, Stored<WidenF32>>(at, count, stream);
  if (stream.dtype == DType::kBF16)
    ForFew<Op, Stored<WidenBF16>>(at, count, stream);
  if (stream.dtype == DType::kF16)
    ForFew<Op, Stored<WidenF16>>(at, count, stream);
  if (stream.dtype == DType::kI8)
    ForFew<Op, Stored<WidenI8>>(at, count, stream);
}

void DotStreamOf(const FewRows& few, const RowStream& stream, float* dots,
                 size_t dots_stride) {
  ForType<DotOp>(few, stream, dots, dots_stride);
}

void DotPairsOf([[maybe_unused]] const FewPairs& few,
                [[maybe_unused]] const RowStream& stream,
                [[maybe_unused]] float* dots,
                [[maybe_unused]] size_t dots_stride) {
#if HWY_TARGET <= HWY_AVX3
  if (stream.rows == 0) return;
  const FewAt at{few.data, static_cast<size_t>(few.stride), dots, dots_stride};
  ForFew<DotOp, StoredPairs>(at, static_cast<size_t>(few.rows), stream);
#endif
}

bool HasPairDotsOn() {
#if HWY_TARGET <= HWY_AVX3
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

void AddStreamOf(const FewRows& weights, const RowStream& stream, float* sums,
                 size_t sums_stride) {
  ForType<AddOp>(weights, stream, sums, sums_stride);
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {
namespace {

HWY_EXPORT(DotStreamOf);
HWY_EXPORT(DotPairsOf);
HWY_EXPORT(HasPairDotsOn);
HWY_EXPORT(AddStreamOf);

}  // namespace

void DotStream(const FewRows& few, const RowStream& stream, float* dots,
               int64_t dots_stride) {
  HWY_DYNAMIC_DISPATCH(DotStreamOf)
  (few, stream, dots, static_cast<size_t>(dots_stride));
}

bool HasPairDots() { return HWY_DYNAMIC_DISPATCH(HasPairDotsOn)(); }

void DotPairs(const FewPairs& few, const RowStream& stream, float* dots,
              int64_t dots_stride) {
  HWY_DYNAMIC_DISPATCH(DotPairsOf)
  (few, stream, dots, static_cast<size_t>(dots_stride));
}

void AddStream(const FewRows& weights, const RowStream& stream, float* sums,
               int64_t sums_stride) {
  HWY_DYNAMIC_DISPATCH(AddStreamOf)
  (weights, stream, sums, static_cast<size_t>(sums_stride));
}

}  // namespace attn
#endif  // HWY_ONCE
