#include "client/cli/check/tensor_ops.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

std::vector<int64_t> Dims(const HostTensor& tensor) {
  const absl::Span<const int64_t> dims = tensor.shape().dims();
  return {dims.begin(), dims.end()};
}

Shape MakeShape(const std::vector<int64_t>& dims) {
  return *Shape::Create(dims, 1, "shape");
}

// Bytes of all axes from `axis` on.
size_t TailBytes(const HostTensor& tensor, int axis) {
  size_t bytes = SizeOf(tensor.dtype());
  for (int a = axis; a < tensor.shape().rank(); ++a) {
    bytes *= static_cast<size_t>(tensor.shape()[a]);
  }
  return bytes;
}

}  // namespace

HostTensor Slice(const HostTensor& tensor, int axis, int64_t begin,
                 int64_t end) {
  std::vector<int64_t> dims = Dims(tensor);
  dims[static_cast<size_t>(axis)] = end - begin;
  TensorView view = tensor.view();
  view.shape = MakeShape(dims);
  if (view.data != nullptr) {
    view.data +=
        static_cast<size_t>(begin * view.strides[static_cast<size_t>(axis)]) *
        SizeOf(tensor.dtype());
  }
  return HostTensor::Copy(view);
}

absl::StatusOr<HostTensor> Concat(const HostTensor& a, const HostTensor& b,
                                  int axis) {
  std::vector<int64_t> dims = Dims(a);
  std::vector<int64_t> other = Dims(b);
  const auto at = static_cast<size_t>(axis);
  const int64_t more = dims.size() == other.size() ? other[at] : 0;
  if (dims.size() == other.size()) other[at] = dims[at];
  if (dims != other || a.dtype() != b.dtype()) {
    return FieldError(
        "case", b.shape().ToString(),
        absl::StrCat("a tensor to join to ", a.shape().ToString()));
  }
  dims[at] += more;
  HostTensor joined(a.dtype(), MakeShape(dims));
  const size_t bytes_a = TailBytes(a, axis);
  const size_t bytes_b = TailBytes(b, axis);
  std::byte* to = joined.data();
  for (size_t i = 0;
       bytes_a + bytes_b > 0 && i < joined.byte_count() / (bytes_a + bytes_b);
       ++i) {
    std::memcpy(to, a.data() + i * bytes_a, bytes_a);
    std::memcpy(to + bytes_a, b.data() + i * bytes_b, bytes_b);
    to += bytes_a + bytes_b;
  }
  return joined;
}

HostTensor SwapHeads(const HostTensor& tensor) {
  return HostTensor::Copy(tensor.view().SwapAxes(1, 2));
}

absl::StatusOr<HostTensor> SplitHeads(const HostTensor& tensor, int64_t heads) {
  const Shape& shape = tensor.shape();
  if (shape.rank() != 3 || heads <= 0 || shape[2] % heads != 0) {
    return FieldError("case", shape.ToString(),
                      absl::StrCat("[B, S, ", heads, " * D]"));
  }
  const auto split =
      Reshaped(tensor, Shape{shape[0], shape[1], heads, shape[2] / heads});
  if (!split.ok()) return split.status();
  return SwapHeads(*split);
}

HostTensor JoinHeads(const HostTensor& tensor) {
  HostTensor swapped = SwapHeads(tensor);
  const Shape shape = swapped.shape();
  return *std::move(swapped).Reshape(
      Shape{shape[0], shape[1], shape[2] * shape[3]});
}

absl::StatusOr<HostTensor> Reshaped(const HostTensor& tensor,
                                    const Shape& shape) {
  return HostTensor::Copy(tensor.view()).Reshape(shape);
}

HostTensor Transposed(const HostTensor& tensor) {
  const int last = tensor.shape().rank() - 1;
  return HostTensor::Copy(tensor.view().SwapAxes(last - 1, last));
}

HostTensor Filled(const Shape& shape, double value) {
  return Map(HostTensor(DType::kF64, shape), DType::kF64,
             [value](double /*zero*/) { return value; });
}

absl::StatusOr<HostTensor> Project(const HostTensor& x,
                                   const HostTensor& weight,
                                   const HostTensor* bias) {
  const int last = x.shape().rank() - 1;
  if (weight.shape().rank() != 2 || weight.shape()[1] != x.shape()[last] ||
      (bias != nullptr && bias->element_count() != weight.shape()[0])) {
    return FieldError("case", weight.shape().ToString(),
                      absl::StrCat("[m, ", x.shape()[last], "]"));
  }
  const int64_t width = weight.shape()[1];
  const int64_t outputs = weight.shape()[0];
  std::vector<int64_t> dims = Dims(x);
  dims.back() = outputs;
  HostTensor result(DType::kF64, MakeShape(dims));
  for (int64_t at = 0; at < result.element_count(); ++at) {
    const int64_t row = at / outputs;
    const int64_t column = at % outputs;
    double sum = bias == nullptr ? 0 : bias->At(column);
    for (int64_t i = 0; i < width; ++i) {
      sum += x.At(row * width + i) * weight.At(column * width + i);
    }
    result.Set(at, sum);
  }
  return result;
}

absl::StatusOr<std::vector<int64_t>> Integers(const nlohmann::json& json) {
  std::vector<int64_t> integers;
  for (const nlohmann::json& value : json) {
    if (!json.is_array() || !value.is_number_integer()) {
      return FieldError("case", json.dump(), "a list of integers");
    }
    integers.push_back(value.get<int64_t>());
  }
  return integers;
}

}  // namespace attn
