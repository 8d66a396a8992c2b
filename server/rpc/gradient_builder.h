// The response of a backward call: its memory, its size, its header.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/gradients.h"
#include "engine/plan/plan.h"
#include "proto/codec/backward_codec.h"
#include "proto/codec/schema.h"

namespace attn {

// Memory that the engine writes gradients to, made into tensors of the response
// without a copy; each has the shape and the order of axes that its tensor had
// in the request. Move-only; thread-compatible.
class GradientBuilder {
 public:
  GradientBuilder() = default;
  GradientBuilder(const Plan& plan, const BackwardCall& call);

  // Bytes of the message, tags included; and with what the engine needs
  // besides, rows and scratch. Saturates instead of overflowing.
  int64_t message_bytes() const { return message_bytes_; }
  int64_t booked_bytes() const { return booked_bytes_; }

  // Takes the memory. The views live as long as the builder.
  InputGradients Allocate();

  // All of the header but the report.
  void FillHeader(const ScalarGradients& scalars,
                  v1::AttendBackwardResponse& header) const;
  // The tensors; call once, after the engine is done.
  std::vector<ResponseTensor> TakeTensors() { return std::move(tensors_); }

 private:
  // The gradient of `view`, which the request has in that order of axes.
  void Add(int field, const TensorView& view, bool bshd);

  DType dtype_ = DType::kF32;
  size_t input_count_ = 0;
  // Of layers: the inputs from first_of_layers_ on.
  size_t first_of_layers_ = 0;
  std::vector<LayerReference> layers_;
  // The inputs that the last of tensors_ belong to.
  std::vector<uint32_t> inputs_;
  std::vector<ResponseTensor> tensors_;
  int64_t message_bytes_ = 0;
  int64_t booked_bytes_ = 0;
};

}  // namespace attn
