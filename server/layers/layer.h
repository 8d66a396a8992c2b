// A layer: tensors by name, as the server keeps them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/core/aligned_buffer.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"
#include "engine/core/tensor_view.h"

namespace attn {

inline constexpr size_t kMaxLayerTensors = 256;

// A row-major tensor in 64-byte aligned memory of its own.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  AlignedBuffer data;

  TensorView view() const {
    return TensorView::Dense(data.data(), dtype, shape);
  }
};

// Never changes once it is shared. Thread-safe then.
struct Layer {
  std::string name;
  uint64_t version = 0;
  // Sum of the tensors.
  int64_t bytes = 0;
  // In the order of their names.
  std::vector<StoredTensor> tensors;

  // What it counts for in the store's budget: `bytes`, names and what keeping a
  // layer and a tensor takes, so that tensors without elements are not free.
  int64_t charge() const;
  // Null if there is none of that name.
  const StoredTensor* Find(absl::string_view tensor) const;
};

// INVALID_ARGUMENT names "name" unless it is 1 to 128 characters of A-Z, a-z,
// 0-9, '.', '_' and '-' and does not begin with '.'.
absl::Status CheckLayerName(absl::string_view name);

// INVALID_ARGUMENT names "tensors" or one of "tensors[i]": 1 to 256 with names
// of their own, of the characters above; BOOL bytes are 0 or 1.
absl::Status CheckLayerTensors(const std::vector<StoredTensor>& tensors);

}  // namespace attn
