// The response of a call: its memory, its size, its header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/attention_args.h"
#include "engine/core/row_statistics.h"
#include "engine/plan/plan.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/schema.h"

namespace attn {

// Memory that the engine writes its results to, made into tensors of the
// response without a copy. Move-only; thread-compatible.
class ResponseBuilder {
 public:
  ResponseBuilder() = default;
  ResponseBuilder(const Plan& plan, const AttendCall& call);

  // Bytes of the message, tags included; and with what the engine needs
  // besides, rows and scratch. Saturates instead of overflowing.
  int64_t message_bytes() const { return message_bytes_; }
  // The part of them that is no tensor's data.
  int64_t header_bytes() const { return header_bytes_; }
  int64_t booked_bytes() const { return booked_bytes_; }

  // Takes the memory. The views live as long as the builder.
  AttentionOutputs Allocate();

  // Statistics that the call asked for, from its rows [B, Hq, Sq], and in the
  // header's report what those of the heads warn of.
  void AddStatistics(absl::Span<const RowStatistics> rows,
                     v1::AttendResponse& header) const;
  // The tensors; call once, after the engine is done.
  std::vector<ResponseTensor> TakeTensors() { return std::move(tensors_); }

 private:
  void AddTensors(const Problem& problem, bool bshd);
  void Add(int field, DType dtype, Shape shape, bool bshd);

  AttentionShape shape_;
  // F32, or F64 in a double call: lse, scores and row statistics.
  DType wide_ = DType::kF32;
  WantedOutputs wanted_;
  std::vector<ResponseTensor> tensors_;
  int64_t message_bytes_ = 0;
  int64_t header_bytes_ = 0;
  int64_t booked_bytes_ = 0;
};

}  // namespace attn
