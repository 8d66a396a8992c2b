#include "server/rpc/response_builder.h"

#include <cstddef>
#include <utility>

#include "server/rpc/byte_count.h"
#include "server/rpc/call_warnings.h"
#include "server/rpc/statistics_message.h"

namespace attn {
namespace {

// Report, tags and lengths of a response, generously.
constexpr int64_t kHeaderBytes = 4096;

using FieldOfResponse = v1::AttendResponse;

// Where the engine writes the tensor of `field`.
MutableTensorView* ViewOf(int field, AttentionOutputs& outputs) {
  switch (field) {
    case FieldOfResponse::kOutputFieldNumber:
      return &outputs.output;
    case FieldOfResponse::kLseFieldNumber:
      return &outputs.lse;
    case FieldOfResponse::kLogitsFieldNumber:
      return &outputs.logits;
    case FieldOfResponse::kMaskedLogitsFieldNumber:
      return &outputs.masked_logits;
    case FieldOfResponse::kLseWithSinkFieldNumber:
      return &outputs.lse_with_sink;
    case FieldOfResponse::kDropoutKeepFieldNumber:
      return &outputs.dropout_keep;
    case FieldOfResponse::kStateFieldNumber:
      return &outputs.state;
    case FieldOfResponse::kHeadOutputFieldNumber:
      return &outputs.head_output;
    default:
      return &outputs.weights;
  }
}

}  // namespace

ResponseBuilder::ResponseBuilder(const Plan& plan, const AttendCall& call)
    : shape_(plan.problem.shape),
      wide_(plan.problem.dtype == DType::kF64 ? DType::kF64 : DType::kF32),
      wanted_(call.wanted),
      header_bytes_(kHeaderBytes) {
  const AttentionShape& s = shape_;
  const int64_t heads = SaturatingProduct(s.batch, s.q_heads);
  const int64_t rows = SaturatingProduct(heads, s.q_length);
  if (wanted_.head_statistics) {
    header_bytes_ = SaturatingSum(
        header_bytes_, SaturatingProduct(heads, kHeadStatisticsBytes));
  }
  if (wanted_.row_statistics) {
    header_bytes_ = SaturatingSum(header_bytes_,
                                  SaturatingProduct(rows, kRowStatisticsBytes));
  }
  message_bytes_ = header_bytes_;
  AddTensors(plan.problem, call.bshd);
  booked_bytes_ = SaturatingSum(
      SaturatingSum(message_bytes_,
                    SaturatingProduct(rows, sizeof(RowStatistics))),
      SaturatingSum(SaturatingCast(plan.execution->call_scratch_bytes()),
                    SaturatingCast(plan.execution->worker_scratch_bytes())));
}

void ResponseBuilder::AddTensors(const Problem& problem, bool bshd) {
  const AttentionShape& s = shape_;
  const Shape rows = {s.batch, s.q_heads, s.q_length};
  const Shape scores = {s.batch, s.q_heads, s.q_length, s.kv_length};
  if (wanted_.output) {
    // Rows of all heads have one order, and so have ragged ones.
    const Shape output = problem.OutputShape();
    const bool swapped = bshd && output.rank() == 4;
    Add(FieldOfResponse::kOutputFieldNumber, problem.output_dtype,
        swapped ? Shape{s.batch, s.q_length, s.q_heads, s.v_dim} : output,
        swapped);
  }
  const struct {
    bool wanted;
    int field;
    DType dtype;
    Shape shape;
  } tensors[] = {
      {wanted_.lse, FieldOfResponse::kLseFieldNumber, wide_, rows},
      {wanted_.logits, FieldOfResponse::kLogitsFieldNumber, wide_, scores},
      {wanted_.masked_logits, FieldOfResponse::kMaskedLogitsFieldNumber, wide_,
       scores},
      {wanted_.weights, FieldOfResponse::kWeightsFieldNumber, wide_, scores},
      {wanted_.lse_with_sink, FieldOfResponse::kLseWithSinkFieldNumber, wide_,
       rows},
      {wanted_.dropout_keep, FieldOfResponse::kDropoutKeepFieldNumber,
       DType::kBool, scores},
      {wanted_.state, FieldOfResponse::kStateFieldNumber, wide_,
       Shape{s.batch, s.kv_heads, s.k_dim, s.v_dim}},
      {wanted_.head_output, FieldOfResponse::kHeadOutputFieldNumber,
       problem.output_dtype, Shape{s.batch, s.q_heads, s.q_length, s.v_dim}},
  };
  for (const auto& tensor : tensors) {
    if (tensor.wanted) Add(tensor.field, tensor.dtype, tensor.shape, false);
  }
}

void ResponseBuilder::Add(int field, DType dtype, Shape shape, bool bshd) {
  message_bytes_ = SaturatingSum(message_bytes_, TensorBytes(shape, dtype));
  ResponseTensor tensor;
  tensor.field = field;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bshd = bshd;
  tensors_.push_back(std::move(tensor));
}

AttentionOutputs ResponseBuilder::Allocate() {
  constexpr int kHeadAxis = 1;
  constexpr int kSequenceAxis = 2;
  AttentionOutputs outputs;
  for (ResponseTensor& tensor : tensors_) {
    tensor.data = AlignedBuffer(
        static_cast<size_t>(TensorBytes(tensor.shape, tensor.dtype)));
    MutableTensorView view = MutableTensorView::Dense(
        tensor.data.data(), tensor.dtype, tensor.shape);
    *ViewOf(tensor.field, outputs) =
        tensor.bshd ? view.SwapAxes(kHeadAxis, kSequenceAxis) : view;
  }
  return outputs;
}

void ResponseBuilder::AddStatistics(absl::Span<const RowStatistics> rows,
                                    v1::AttendResponse& header) const {
  if (wanted_.row_statistics) {
    FillRows(rows, shape_, wide_, *header.mutable_row_statistics());
  }
  if (!wanted_.head_statistics) return;
  const std::vector<HeadStatistics> heads = SummarizeHeads(rows, shape_);
  FillHeads(heads, shape_, *header.mutable_head_statistics());
  for (v1::Warning& warning : HeadWarnings(heads, shape_)) {
    *header.mutable_report()->add_warnings() = std::move(warning);
  }
}

}  // namespace attn
