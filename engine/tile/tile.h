// A block of one head's score matrix: what the stages' hooks act on.
#pragma once

#include <cstdint>

namespace attn {

// Where a tile lies. Rows are queries, columns are keys; both absolute.
struct TileBounds {
  int64_t batch = 0;
  int64_t head = 0;  // query head
  int64_t row_begin = 0;
  int64_t rows = 0;
  int64_t key_begin = 0;
  int64_t keys = 0;
};

// Row-major scores of a tile; T is float (kernels) or double (reference).
template <typename T>
struct Tile {
  TileBounds bounds;
  T* data = nullptr;
  // Elements from one row to the next, >= bounds.keys.
  int64_t stride = 0;

  T* Row(int64_t r) const { return data + r * stride; }
};

// Keys [begin, end).
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool empty() const { return begin >= end; }
};

}  // namespace attn
