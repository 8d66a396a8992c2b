// Whether a tensor is what was expected, element by element.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"

namespace attn {

// An element passes if |got - want| <= atol + rtol * |want|. An infinity must
// be met exactly, NaN only where it is expected.
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

// The element furthest from what is allowed.
struct WorstElement {
  std::string index;  // "[0, 1, 2]"
  double got = 0;
  double want = 0;
  double allowed = 0;
};

struct Comparison {
  // Largest |got - want| over the elements where both are finite.
  double max_difference = 0;
  int64_t elements = 0;
  int64_t mismatches = 0;
  // Set if there are mismatches.
  std::optional<WorstElement> worst;
};

// `want` may be broadcast over leading axes of `got`, or have the same number
// of elements in another shape. INVALID_ARGUMENT if the shapes do not fit.
absl::StatusOr<Comparison> Compare(const HostTensor& got,
                                   const HostTensor& want,
                                   const Tolerance& tolerance);

}  // namespace attn
