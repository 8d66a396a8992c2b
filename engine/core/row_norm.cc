#include "engine/core/row_norm.h"

#include <cmath>
#include <cstring>

#include "engine/core/half.h"

namespace attn {
namespace {

template <typename Bits>
Bits Read(const std::byte* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

double ElementAt(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return static_cast<double>(FromF16(Read<uint16_t>(from)));
    case DType::kBF16:
      return static_cast<double>(FromBF16(Read<uint16_t>(from)));
    case DType::kF64:
      return Read<double>(from);
    default:
      return static_cast<double>(Read<float>(from));
  }
}

// Sum of the squares of the elements of row `row` of a head.
double SquaresOf(const TensorView& tensor, int64_t batch, int64_t head,
                 int64_t row) {
  const auto size = static_cast<int64_t>(SizeOf(tensor.dtype));
  const std::byte* from =
      tensor.data + size * (batch * tensor.strides[0] +
                            head * tensor.strides[1] + row * tensor.strides[2]);
  double squares = 0;
  for (int64_t c = 0; c < tensor.shape[3]; ++c) {
    const double x = ElementAt(from, tensor.dtype);
    squares += x * x;
    from += size * tensor.strides[3];
  }
  return squares;
}

}  // namespace

double MeanRowNorm(const TensorView& tensor,
                   const std::vector<int64_t>& lengths) {
  if (tensor.shape.rank() != 4) return 0;
  double squares = 0;
  int64_t rows = 0;
  for (int64_t b = 0; b < tensor.shape[0]; ++b) {
    const int64_t length =
        lengths.empty() ? tensor.shape[2] : lengths[static_cast<size_t>(b)];
    for (int64_t h = 0; h < tensor.shape[1]; ++h) {
      for (int64_t i = 0; i < length; ++i) {
        squares += SquaresOf(tensor, b, h, i);
      }
    }
    rows += tensor.shape[1] * length;
  }
  return rows == 0 ? 0 : std::sqrt(squares / static_cast<double>(rows));
}

}  // namespace attn
