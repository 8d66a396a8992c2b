// Matrix products by oneDNN: the one door to that library.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/isa_cap.h"

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

// The same of BF16.
struct ConstBf16Matrix {
  const uint16_t* data = nullptr;
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

// c = a * transpose(b), a [rows, inner] and b [columns, inner], summed in F32:
// products of two BF16 numbers are exact there. Numbers below the smallest
// normal one count as 0. Only where OneDnnNarrowProducts() is not kNone. Keeps
// what it prepares for an extent and a stride for the thread that asks: ask for
// few of them. Thread-safe.
void MultiplyTransposed(const ProductSize& size, ConstBf16Matrix a,
                        ConstBf16Matrix b, Matrix c);

// "2.6.3"
std::string OneDnnLibraryVersion();

// What the library uses for products of BF16.
enum class NarrowProducts : uint8_t {
  kNone = 1,   // it widens
  kDots = 2,   // AVX-512's dots of pairs
  kTiles = 3,  // AMX
};
// On this machine, under the cap. Thread-safe.
NarrowProducts OneDnnNarrowProducts();

// Holds the library's generated code to the cap. False if it is too late: the
// library has been asked for something, or been capped, before. Not
// thread-safe.
bool CapOneDnn(IsaCap cap);

}  // namespace attn
