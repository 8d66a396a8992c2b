#include "tests/integration/memory/big_call.h"

#include <numeric>

namespace attn {
namespace {

constexpr int64_t kHeadsOfAMebibyte = 512;
constexpr int64_t kRows = 8;
constexpr int64_t kDim = 64;
static_assert(kHeadsOfAMebibyte * kRows * kDim * sizeof(float) == kMebibyte);

Shape ShapeOf(int64_t mebibytes) {
  return {1, kHeadsOfAMebibyte * mebibytes, kRows, kDim};
}

// Some numbers; no two neighbours are equal.
std::vector<float> Values(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>((i * 7 + static_cast<size_t>(seed)) % 13) / 13;
  }
  return values;
}

v1::Tensor Copied(const std::vector<float>& values, const Shape& shape) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_F32);
  for (const int64_t extent : shape.dims()) tensor.add_shape(extent);
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
  return tensor;
}

}  // namespace

BigCall::BigCall(int64_t mebibytes)
    : mebibytes_(mebibytes),
      q_(Values(ShapeOf(mebibytes).element_count(), 1)),
      k_(Values(ShapeOf(mebibytes).element_count(), 2)),
      v_(Values(ShapeOf(mebibytes).element_count(), 3)) {}

TensorView BigCall::View(const std::vector<float>& values) const {
  return TensorView::Dense(values.data(), DType::kF32, ShapeOf(mebibytes_));
}

AttendMessage BigCall::Message() const {
  AttendMessage message;
  message.args.q = View(q_);
  message.args.k = View(k_);
  message.args.v = View(v_);
  message.wanted.output = true;
  return message;
}

v1::AttendRequest BigCall::Request() const {
  v1::AttendRequest request;
  *request.mutable_q() = Copied(q_, ShapeOf(mebibytes_));
  *request.mutable_k() = Copied(k_, ShapeOf(mebibytes_));
  *request.mutable_v() = Copied(v_, ShapeOf(mebibytes_));
  return request;
}

}  // namespace attn
