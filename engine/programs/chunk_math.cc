// Compiled once for each instruction set; HWY_DYNAMIC_DISPATCH takes the best
// that the machine has.
#include "engine/programs/chunk_math.h"

#include <algorithm>
#include <cmath>

#include "engine/tile/row_math.h"
#include "engine/tile/sigmoid.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/programs/chunk_math.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::CappedTag<T, kProgramLanes>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;

// out = op(a, b, c), vector by vector; operands that an operation lacks are
// not read.
template <int kArity, typename T, class Op>
HWY_INLINE void ForEach(const T* const* operands, size_t count, T* out, Op op) {
  const Tag<T> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto a = hn::Load(d, operands[0] + i);
    if constexpr (kArity == 1) {
      hn::Store(op(a), d, out + i);
    } else if constexpr (kArity == 2) {
      hn::Store(op(a, hn::Load(d, operands[1] + i)), d, out + i);
    } else {
      hn::Store(
          op(a, hn::Load(d, operands[1] + i), hn::Load(d, operands[2] + i)), d,
          out + i);
    }
  }
}

// 1 where the comparison holds, else 0.
template <typename T, class Compare>
HWY_INLINE void ForEachPair(const T* const* operands, size_t count, T* out,
                            Compare compare) {
  const auto one = hn::Set(Tag<T>(), T{1});
  ForEach<2>(operands, count, out, [&](Vector<T> a, Vector<T> b) {
    return hn::IfThenElseZero(compare(a, b), one);
  });
}

// `a`, unless `better(b, a)` or b is NaN.
template <class V, class Better>
HWY_INLINE V PickOf(V a, V b, Better better) {
  return hn::IfThenElse(hn::Or(better(b, a), hn::IsNaN(b)),
                        hn::IfThenElse(hn::IsNaN(a), a, b), a);
}

// Exact for whole numbers whose product of quotient and divisor is.
template <typename T>
T FlooredRemainder(T a, T b) {
  const T remainder = std::fmod(a, b);
  if (remainder == 0) return 0;
  return (remainder < 0) == (b < 0) ? remainder : remainder + b;
}

template <typename T>
HWY_INLINE void Modulo(const T* const* operands, size_t count, T* out) {
  const Tag<T> d;
  constexpr T kExactWholes = sizeof(T) == 4 ? T{1 << 22} : T{int64_t{1} << 51};
  const auto whole = [&](Vector<T> x) {
    return hn::And(hn::Eq(x, hn::Floor(x)),
                   hn::Lt(hn::Abs(x), hn::Set(d, kExactWholes)));
  };
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto a = hn::Load(d, operands[0] + i);
    const auto b = hn::Load(d, operands[1] + i);
    const auto usable =
        hn::AndNot(hn::Eq(b, hn::Zero(d)), hn::And(whole(a), whole(b)));
    if (hn::AllTrue(d, usable)) {
      hn::Store(hn::NegMulAdd(hn::Floor(hn::Div(a, b)), b, a), d, out + i);
      continue;
    }
    for (size_t j = i; j < i + hn::Lanes(d); ++j) {
      out[j] = FlooredRemainder(operands[0][j], operands[1][j]);
    }
  }
}

template <typename T>
void ApplyUnary(Operation operation, const T* const* operands, size_t count,
                T* out) {
  const auto each = [&](auto op) { ForEach<1>(operands, count, out, op); };
  using V = Vector<T>;
  switch (operation) {
    case Operation::kNegate:
      return each([](V a) { return hn::Neg(a); });
    case Operation::kNot:
      return each([](V a) { return hn::Sub(hn::Set(Tag<T>(), T{1}), a); });
    case Operation::kAbs:
      return each([](V a) { return hn::Abs(a); });
    case Operation::kSqrt:
      return each([](V a) { return hn::Sqrt(a); });
    case Operation::kFloor:
      return each([](V a) { return hn::Floor(a); });
    default:
      return;
  }
}

template <typename T>
void ApplyComparison(Operation operation, const T* const* operands,
                     size_t count, T* out) {
  const auto pairs = [&](auto op) { ForEachPair(operands, count, out, op); };
  using V = Vector<T>;
  switch (operation) {
    case Operation::kLess:
      return pairs([](V a, V b) { return hn::Lt(a, b); });
    case Operation::kLessEqual:
      return pairs([](V a, V b) { return hn::Le(a, b); });
    case Operation::kGreater:
      return pairs([](V a, V b) { return hn::Gt(a, b); });
    case Operation::kGreaterEqual:
      return pairs([](V a, V b) { return hn::Ge(a, b); });
    case Operation::kEqual:
      return pairs([](V a, V b) { return hn::Eq(a, b); });
    default:
      // Not hn::Ne(), which is false for NaN on some targets.
      return pairs([](V a, V b) { return hn::Not(hn::Eq(a, b)); });
  }
}

template <typename T>
void ApplyBinary(Operation operation, const T* const* operands, size_t count,
                 T* out) {
  const auto each = [&](auto op) { ForEach<2>(operands, count, out, op); };
  using V = Vector<T>;
  const auto less = [](V a, V b) { return hn::Lt(a, b); };
  const auto greater = [](V a, V b) { return hn::Gt(a, b); };
  switch (operation) {
    case Operation::kAdd:
      return each([](V a, V b) { return hn::Add(a, b); });
    case Operation::kSubtract:
      return each([](V a, V b) { return hn::Sub(a, b); });
    case Operation::kMultiply:
    case Operation::kAnd:
      return each([](V a, V b) { return hn::Mul(a, b); });
    case Operation::kDivide:
      return each([](V a, V b) { return hn::Div(a, b); });
    case Operation::kModulo:
      return Modulo(operands, count, out);
    case Operation::kMin:
      return each([&](V a, V b) { return PickOf(a, b, less); });
    case Operation::kMax:
    case Operation::kOr:
      return each([&](V a, V b) { return PickOf(a, b, greater); });
    default:
      return ApplyComparison(operation, operands, count, out);
  }
}

template <typename T>
void ApplyVectors(Operation operation, const T* const* operands, size_t count,
                  T* out) {
  if (operation == Operation::kSelect) {
    const auto zero = hn::Zero(Tag<T>());
    using V = Vector<T>;
    return ForEach<3>(operands, count, out, [&](V c, V yes, V no) {
      return hn::IfThenElse(hn::Ne(c, zero), yes, no);
    });
  }
  if (operation < Operation::kAdd) {
    return ApplyUnary(operation, operands, count, out);
  }
  return ApplyBinary(operation, operands, count, out);
}

void ApplyFloats(Operation operation, const float* const* operands,
                 size_t count, float* out) {
  ApplyVectors(operation, operands, count, out);
}

void ApplyDoubles(Operation operation, const double* const* operands,
                  size_t count, double* out) {
  ApplyVectors(operation, operands, count, out);
}

}  // namespace
}  // namespace attn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn {

HWY_EXPORT(ApplyFloats);
HWY_EXPORT(ApplyDoubles);

namespace {

// The operations whose vector forms would have more corners than the standard
// library's own. Whether `operation` is one of them.
template <typename T>
bool ApplyScalars(Operation operation, const T* const* operands, int64_t count,
                  T* out) {
  const T* a = operands[0];
  const auto each = [&](auto op) {
    for (int64_t i = 0; i < count; ++i) out[i] = op(a[i]);
    return true;
  };
  switch (operation) {
    case Operation::kExp:
      return each([](T x) { return std::exp(x); });
    case Operation::kLog:
      return each([](T x) { return std::log(x); });
    case Operation::kSin:
      return each([](T x) { return std::sin(x); });
    case Operation::kCos:
      return each([](T x) { return std::cos(x); });
    case Operation::kSigmoid:
      return each([](T x) { return SigmoidOf(x); });
    case Operation::kTanh:
      if (out != a) std::copy_n(a, count, out);
      SoftcapRow(out, count, T{1});
      return true;
    case Operation::kPow:
      for (int64_t i = 0; i < count; ++i) {
        out[i] = std::pow(a[i], operands[1][i]);
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

void ApplyOperation(Operation operation, const float* const* operands,
                    int64_t count, float* out) {
  if (ApplyScalars(operation, operands, count, out)) return;
  HWY_DYNAMIC_DISPATCH(ApplyFloats)
  (operation, operands, static_cast<size_t>(count), out);
}

void ApplyOperation(Operation operation, const double* const* operands,
                    int64_t count, double* out) {
  if (ApplyScalars(operation, operands, count, out)) return;
  HWY_DYNAMIC_DISPATCH(ApplyDoubles)
  (operation, operands, static_cast<size_t>(count), out);
}

}  // namespace attn
#endif  // HWY_ONCE
