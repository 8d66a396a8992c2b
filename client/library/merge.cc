#include "client/library/merge.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/core/merge_partials.h"

namespace attn {
namespace {

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

Shape DropFirst(const Shape& shape) {
  return *Shape::Create(shape.dims().subspan(1), 1, "shape");
}

template <typename T>
void MergeRows(const HostTensor& outputs, const HostTensor& lses,
               MergedAttention& merged) {
  const int64_t rows = merged.lse.element_count();
  const int64_t width = merged.output.shape()[merged.output.shape().rank() - 1];
  std::vector<PartialRow<T>> parts(static_cast<size_t>(lses.shape()[0]));
  T* output = merged.output.values<T>().data();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = row;
    for (PartialRow<T>& part : parts) {
      part.lse = lses.At(at);
      part.output = outputs.values<T>().data() + at * width;
      at += rows;
    }
    merged.lse.Set(row,
                   attn::MergePartials<T>(parts, width, output + row * width));
  }
}

// Sinks of each row's head: lse is [..., Hq, Sq], sinks [Hq] or [Hq, n].
absl::Status CheckSinks(const HostTensor& lse, const HostTensor& sinks) {
  const int rank = lse.shape().rank();
  const int sink_rank = sinks.shape().rank();
  if (rank >= 2 && (sink_rank == 1 || sink_rank == 2) &&
      sinks.shape()[0] == lse.shape()[rank - 2]) {
    return absl::OkStatus();
  }
  return FieldError("sinks.shape", sinks.shape().ToString(),
                    absl::StrCat("[Hq] or [Hq, n] for lse [..., Hq, Sq] = ",
                                 lse.shape().ToString()));
}

}  // namespace

absl::StatusOr<MergedAttention> MergePartials(const HostTensor& outputs,
                                              const HostTensor& lses) {
  if (absl::Status status = Check(outputs, lses); !status.ok()) return status;
  MergedAttention merged{
      .output = HostTensor(outputs.dtype(), DropFirst(outputs.shape())),
      .lse = HostTensor(lses.dtype(), DropFirst(lses.shape()))};
  if (outputs.dtype() == DType::kF64) {
    MergeRows<double>(outputs, lses, merged);
  } else {
    MergeRows<float>(outputs, lses, merged);
  }
  return merged;
}

absl::StatusOr<HostTensor> JoinSinks(const HostTensor& sinks,
                                     MergedAttention& merged) {
  const HostTensor& lse = merged.lse;
  if (absl::Status status = CheckSinks(lse, sinks); !status.ok()) return status;
  const int64_t heads = sinks.shape()[0];
  const int64_t length = lse.shape()[lse.shape().rank() - 1];
  const int64_t width = merged.output.shape()[merged.output.shape().rank() - 1];
  const int64_t count = sinks.element_count() / std::max<int64_t>(heads, 1);
  std::vector<double> own(static_cast<size_t>(count));
  HostTensor with_sink(lse.dtype(), lse.shape());
  for (int64_t row = 0; row < lse.element_count(); ++row) {
    const int64_t head = row / length % heads;
    for (int64_t i = 0; i < count; ++i) {
      own[static_cast<size_t>(i)] = sinks.At(head * count + i);
    }
    const SinkJoin joined = attn::JoinSinks(lse.At(row), own);
    with_sink.Set(row, joined.lse_with_sink);
    for (int64_t d = row * width; d < (row + 1) * width; ++d) {
      merged.output.Set(d, merged.output.At(d) * joined.factor);
    }
  }
  return with_sink;
}

}  // namespace attn
