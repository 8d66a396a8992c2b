#include "client/library/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();

absl::Status Check(const HostTensor& outputs, const HostTensor& lses) {
  const absl::Span<const int64_t> out = outputs.shape().dims();
  const absl::Span<const int64_t> lse = lses.shape().dims();
  if (outputs.dtype() != lses.dtype() ||
      (outputs.dtype() != DType::kF32 && outputs.dtype() != DType::kF64)) {
    return FieldError(
        "dtype",
        absl::StrCat(Name(outputs.dtype()), " and ", Name(lses.dtype())),
        "F32 or F64, both alike");
  }
  if (lse.empty() || out.size() != lse.size() + 1 ||
      !std::equal(lse.begin(), lse.end(), out.begin())) {
    return FieldError("outputs.shape", outputs.shape().ToString(),
                      absl::StrCat("[P, ..., D] for lses of shape [P, ...] = ",
                                   lses.shape().ToString()));
  }
  if (lse[0] < 1) return FieldError("outputs", "no part", "one part or more");
  return absl::OkStatus();
}

// The parts' lse of one row, and their merged value: exp(lse_p - lse) is the
// part's share.
double MergeLse(const HostTensor& lses, int64_t row, int64_t rows) {
  const int64_t parts = lses.shape()[0];
  double max = kNoKey;
  for (int64_t p = 0; p < parts; ++p) {
    const double lse = lses.At(p * rows + row);
    if (std::isnan(lse)) return lse;
    max = std::max(max, lse);
  }
  if (std::isinf(max)) return max;
  double sum = 0;
  for (int64_t p = 0; p < parts; ++p) {
    sum += std::exp(lses.At(p * rows + row) - max);
  }
  return max + std::log(sum);
}

Shape DropFirst(const Shape& shape) {
  return *Shape::Create(shape.dims().subspan(1), 1, "shape");
}

}  // namespace

absl::StatusOr<MergedAttention> MergePartials(const HostTensor& outputs,
                                              const HostTensor& lses) {
  if (absl::Status status = Check(outputs, lses); !status.ok()) return status;
  const int64_t parts = lses.shape()[0];
  const int64_t rows = lses.element_count() / parts;
  const int64_t width = outputs.shape()[outputs.shape().rank() - 1];
  MergedAttention merged{
      .output = HostTensor(outputs.dtype(), DropFirst(outputs.shape())),
      .lse = HostTensor(lses.dtype(), DropFirst(lses.shape()))};
  std::vector<double> sums(static_cast<size_t>(width));
  for (int64_t row = 0; row < rows; ++row) {
    const double lse = MergeLse(lses, row, rows);
    merged.lse.Set(row, lse);
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t p = 0; p < parts; ++p) {
      const double part = lses.At(p * rows + row);
      if (part == kNoKey) continue;
      const double share = std::exp(part - lse);
      for (int64_t d = 0; d < width; ++d) {
        sums[static_cast<size_t>(d)] +=
            share * outputs.At((p * rows + row) * width + d);
      }
    }
    for (int64_t d = 0; d < width; ++d) {
      merged.output.Set(row * width + d, sums[static_cast<size_t>(d)]);
    }
  }
  return merged;
}

}  // namespace attn
