#include "server/app/warm_up.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/core/aligned_buffer.h"

namespace attn {
namespace {

struct WarmShape {
  int64_t q_length;
  int64_t kv_length;
};

constexpr int64_t kHeads = 4;
constexpr int64_t kDim = 64;
constexpr WarmShape kShapes[] = {{1, 256}, {128, 128}};
constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

AlignedBuffer Zeros(const Shape& shape, DType dtype) {
  AlignedBuffer buffer(static_cast<size_t>(shape.element_count()) *
                       SizeOf(dtype));
  std::fill_n(buffer.data(), buffer.size(), std::byte{0});
  return buffer;
}

absl::Status RunOne(Engine& engine, const WarmShape& warm, DType dtype) {
  const Shape q_shape = {1, kHeads, warm.q_length, kDim};
  const Shape kv_shape = {1, kHeads, warm.kv_length, kDim};
  const AlignedBuffer q = Zeros(q_shape, dtype);
  const AlignedBuffer kv = Zeros(kv_shape, dtype);
  AlignedBuffer out = Zeros(q_shape, dtype);
  AttentionArgs args;
  args.q = TensorView::Dense(q.data(), dtype, q_shape);
  args.k = TensorView::Dense(kv.data(), dtype, kv_shape);
  args.v = TensorView::Dense(kv.data(), dtype, kv_shape);
  AttentionOutputs outputs;
  outputs.output = MutableTensorView::Dense(out.data(), dtype, q_shape);
  const auto plan = engine.Plan({}, args, {}, dtype);
  if (!plan.ok()) return plan.status();
  return engine.Run(*plan, args, outputs).status;
}

}  // namespace

absl::Status WarmUp(Engine& engine) {
  for (const WarmShape& shape : kShapes) {
    for (const DType dtype : kDTypes) {
      absl::Status status = RunOne(engine, shape, dtype);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace attn
