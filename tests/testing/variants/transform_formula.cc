#include <algorithm>
#include <cmath>

#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

bool Covers(TransformTarget target, Whose whose) {
  if (target == TransformTarget::kBoth) return true;
  return (whose == Whose::kQuery) == (target == TransformTarget::kQuery);
}

int64_t PositionOf(const VariantCase& call, const RotaryTransform& rotary,
                   Whose whose, const Pair& at) {
  const bool query = whose == Whose::kQuery;
  const int64_t row = query ? at.query : at.key;
  const auto& given = query ? rotary.query_positions : rotary.key_positions;
  if (given) {
    return static_cast<int64_t>(Read(call.inputs[*given], at.batch, {row}));
  }
  return row + (query ? rotary.query_offset : rotary.key_offset);
}

Row Rotate(const VariantCase& call, const RotaryTransform& rotary, Whose whose,
           const Pair& at, const Row& row) {
  const int64_t dim =
      rotary.rotary_dim.value_or(std::min(call.shape.q_dim, call.shape.k_dim));
  const int64_t position = PositionOf(call, rotary, whose, at);
  Row turned = row;
  for (int64_t i = 0; i < dim / 2; ++i) {
    double angle = static_cast<double>(position) / rotary.position_scale /
                   std::pow(rotary.base, 2.0 * static_cast<double>(i) /
                                             static_cast<double>(dim));
    double cosine = std::cos(angle);
    double sine = std::sin(angle);
    if (rotary.cos) {
      const Parameter& table = call.inputs[*rotary.cos];
      const bool by_row = table.shape.size() == 3;
      const int64_t own = whose == Whose::kQuery ? at.query : at.key;
      const int64_t index = by_row ? at.batch * table.shape[1] + own : position;
      const auto element = static_cast<size_t>(index * table.shape.back() + i);
      cosine = table.data[element];
      sine = call.inputs[*rotary.sin].data[element];
    }
    const bool split = rotary.layout == RotaryLayout::kHalfSplit;
    const auto a = static_cast<size_t>(split ? i : 2 * i);
    const auto b = static_cast<size_t>(split ? i + dim / 2 : 2 * i + 1);
    turned[a] = row[a] * cosine - row[b] * sine;
    turned[b] = row[a] * sine + row[b] * cosine;
  }
  return turned;
}

Row Scale(const VariantCase& call, const NormTransform& norm, Whose whose,
          const Pair& at, const Row& row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  const double divisor =
      norm.kind == NormKind::kL2
          ? std::max(std::sqrt(squares), norm.eps)
          : std::sqrt(squares / static_cast<double>(row.size()) + norm.eps);
  const auto& weight =
      whose == Whose::kQuery ? norm.query_weight : norm.key_weight;
  Row scaled = row;
  for (size_t i = 0; i < row.size(); ++i) {
    scaled[i] = row[i] / divisor;
    if (weight) {
      scaled[i] *=
          Read(call.inputs[*weight], at.head, {static_cast<int64_t>(i)});
    }
  }
  return scaled;
}

}  // namespace

Row Transform(const VariantCase& call, const TransformSpec& spec, Whose whose,
              const Pair& at, Row row) {
  return std::visit(Overloaded{[&](const RotaryTransform& rotary) {
                                 return Covers(rotary.target, whose)
                                            ? Rotate(call, rotary, whose, at,
                                                     row)
                                            : row;
                               },
                               [&](const NormTransform& norm) {
                                 return Covers(norm.target, whose)
                                            ? Scale(call, norm, whose, at, row)
                                            : row;
                               }},
                    spec);
}

}  // namespace attn::oracle
