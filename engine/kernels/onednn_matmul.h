// Matrix products by oneDNN: the one door to that library.
#pragma once

#include <cstdint>
#include <string>

namespace attn {

// A row-major f32 matrix that somebody else owns. `stride` elements lie between
// the starts of two rows, at least a row's length.
struct ConstMatrix {
  const float* data = nullptr;
  int64_t stride = 0;
};
struct Matrix {
  float* data = nullptr;
  int64_t stride = 0;
};

// The product is [rows, columns]; its sums run over `inner`. Any may be 0.
struct ProductSize {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
};

// c = alpha * a * transpose(b) with a [rows, inner] and b [columns, inner].
// Runs on as many threads as OpenMP allows the caller (a pool's worker: one).
// Thread-safe.
void MultiplyTransposed(const ProductSize& size, float alpha, ConstMatrix a,
                        ConstMatrix b, Matrix c);

// c = a * b, or c += a * b if `accumulate`, with a [rows, inner] and
// b [inner, columns]. Thread-safe.
void Multiply(const ProductSize& size, ConstMatrix a, ConstMatrix b,
              bool accumulate, Matrix c);

// "2.6.3"
std::string OneDnnLibraryVersion();

}  // namespace attn
