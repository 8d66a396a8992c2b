// The running state of a softmax over tiles of a row of logits (Milakov and
// Gimelshein 2018, algorithm 3), with what its entropy needs.
//
// The widest vectors of this machine, chosen once at run time; bits depend on
// content and extents, never on alignment. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <limits>

namespace attn {

// What is known of the part of a row that has been taken in. A value.
struct OnlineRow {
  // Of the visible logits, NaN passed over; +-infinity before there is one.
  float max = -std::numeric_limits<float>::infinity();
  float min = std::numeric_limits<float>::infinity();
  bool has_nan = false;
  // Sums of exp(x - max) and of exp(x - max) (x - max). NaN if has_nan or max
  // is infinite.
  double sum = 0;
  double weighted = 0;
  // Logits that are not -infinity.
  int64_t visible = 0;
  // Key of the first largest logit; -1 before there is one.
  int64_t top_key = -1;

  // Where tiles brought norms: of the visible logits, NaN among them, the sums
  // of their deviations from a number near them, a float, and of the squares of
  // these; and the sum of exp(x - max) * norm.
  bool has_moments = false;
  double centre = 0;
  double deviation = 0;
  double squares = 0;
  double contribution = 0;
};

// Tiles [rows, count] of logits, `stride` elements from one row to the next.
struct OnlineTile {
  float* data = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t count = 0;
  // Of the first column.
  int64_t first_key = 0;
  // [count], of the keys' values; null: moments are not asked for.
  const float* norms = nullptr;
};

// Takes in a tile: row r to states[r]. Its elements become exp(x - max) with
// the new maximum, within 2 ulp of 1 (the row's largest), and 0 for -infinity.
// What was added up with the row's earlier maximum must
// be multiplied by factors[r].
void AbsorbTile(const OnlineTile& tile, OnlineRow* states, float* factors);

}  // namespace attn
