// The gradient of what a layer gives, as the way back reads it.
#pragma once

#include <cstdint>

#include "engine/core/attention_args.h"
#include "engine/projections/step.h"

namespace attn {

// Columns of a tensor [B, H, S, D].
TensorView ColumnsOf(const TensorView& tensor, int64_t first, int64_t count);

// Some rows of one batch entry, and columns of them.
struct RowsAndColumns {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};

// Rows [B, 1, S, out] in scratch or of the call's output gradient, of which
// those beyond q_lengths are 0. A row that is 0 says nothing of what the layer
// was applied to, which is not read then: there may be NaN in it. A value.
class ResultGradient {
 public:
  ResultGradient() = default;
  ResultGradient(const Problem& problem, const RowSource& source)
      : shape_(problem.shape), source_(source) {}

  // One row after the other; T is float or double.
  template <typename T>
  void Load(const KernelCall& call, const RowsAndColumns& part, T* to) const;

 private:
  AttentionShape shape_;
  RowSource source_;
};

// Whether all of a row is 0.
template <typename T>
bool IsZeroRow(const T* row, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    if (row[i] != 0) return false;
  }
  return true;
}

}  // namespace attn
