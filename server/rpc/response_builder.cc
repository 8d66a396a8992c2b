#include "server/rpc/response_builder.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "engine/core/head_statistics.h"

namespace attn {
namespace {

// Report, tags and lengths of a response, generously.
constexpr int64_t kHeaderBytes = 2048;
// One v1::HeadStatistics at its widest.
constexpr int64_t kHeadBytes = 160;
// Entropy, peak weight, top key and visible keys of one row.
constexpr int64_t kRowBytes = 8 + 8 + 8 + 8;

using FieldOfResponse = v1::AttendResponse;

int64_t Multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product)
             ? std::numeric_limits<int64_t>::max()
             : product;
}

int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum)
             ? std::numeric_limits<int64_t>::max()
             : sum;
}

int64_t Saturate(size_t bytes) {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return bytes > static_cast<size_t>(kMax) ? kMax : static_cast<int64_t>(bytes);
}

int64_t ByteCount(const Shape& shape, DType dtype) {
  auto bytes = static_cast<int64_t>(SizeOf(dtype));
  for (const int64_t extent : shape.dims()) bytes = Multiply(bytes, extent);
  return bytes;
}

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
    default:
      return &outputs.weights;
  }
}

template <typename T>
constexpr v1::DataType kWireType = v1::DATA_TYPE_F32;
template <>
constexpr v1::DataType kWireType<double> = v1::DATA_TYPE_F64;
template <>
constexpr v1::DataType kWireType<int64_t> = v1::DATA_TYPE_I64;

// A tensor of one value for each row.
template <typename T, typename Get>
void FillRows(absl::Span<const RowStatistics> rows, const AttentionShape& shape,
              Get get, v1::Tensor& tensor) {
  tensor.set_dtype(kWireType<T>);
  tensor.add_shape(shape.batch);
  tensor.add_shape(shape.q_heads);
  tensor.add_shape(shape.q_length);
  std::vector<T> values;
  values.reserve(rows.size());
  for (const RowStatistics& row : rows) {
    values.push_back(static_cast<T>(get(row)));
  }
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(T));
}

// The statistics that are as exact as the call.
template <typename T>
void FillWeightStatistics(absl::Span<const RowStatistics> rows,
                          const AttentionShape& shape,
                          v1::RowStatistics& message) {
  FillRows<T>(
      rows, shape, [](const RowStatistics& r) { return r.entropy; },
      *message.mutable_entropy());
  FillRows<T>(
      rows, shape, [](const RowStatistics& r) { return r.peak_weight; },
      *message.mutable_peak_weight());
}

void FillHead(const HeadStatistics& from, v1::HeadStatistics& to) {
  to.set_rows(from.rows);
  to.set_empty_rows(from.empty_rows);
  to.set_mean_entropy(from.mean_entropy);
  to.set_mean_entropy_ratio(from.mean_entropy_ratio);
  to.set_mean_peak_weight(from.mean_peak_weight);
  to.set_max_peak_weight(from.max_peak_weight);
  to.set_mean_visible_keys(from.mean_visible_keys);
  to.set_top_key(from.top_key);
  to.set_top_key_share(from.top_key_share);
  to.set_saturated_rows(from.saturated_rows);
  to.set_logit_min(from.logit_min);
  to.set_logit_max(from.logit_max);
}

}  // namespace

ResponseBuilder::ResponseBuilder(const Plan& plan, const AttendCall& call)
    : shape_(plan.problem.shape),
      wide_(plan.problem.dtype == DType::kF64 ? DType::kF64 : DType::kF32),
      wanted_(call.wanted) {
  message_bytes_ = kHeaderBytes;
  AddTensors(plan.problem.output_dtype, call.bshd);
  const AttentionShape& s = shape_;
  const int64_t heads = Multiply(s.batch, s.q_heads);
  const int64_t rows = Multiply(heads, s.q_length);
  if (wanted_.head_statistics) {
    message_bytes_ = attn::Add(message_bytes_, Multiply(heads, kHeadBytes));
  }
  if (wanted_.row_statistics) {
    message_bytes_ = attn::Add(message_bytes_, Multiply(rows, kRowBytes));
  }
  booked_bytes_ = attn::Add(
      attn::Add(message_bytes_, Multiply(rows, sizeof(RowStatistics))),
      attn::Add(Saturate(plan.execution->call_scratch_bytes()),
                Saturate(plan.execution->worker_scratch_bytes())));
}

void ResponseBuilder::AddTensors(DType output_dtype, bool bshd) {
  const AttentionShape& s = shape_;
  const Shape rows = {s.batch, s.q_heads, s.q_length};
  const Shape scores = {s.batch, s.q_heads, s.q_length, s.kv_length};
  if (wanted_.output) {
    Add(FieldOfResponse::kOutputFieldNumber, output_dtype,
        bshd ? Shape{s.batch, s.q_length, s.q_heads, s.v_dim}
             : Shape{s.batch, s.q_heads, s.q_length, s.v_dim},
        bshd);
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
  };
  for (const auto& tensor : tensors) {
    if (tensor.wanted) Add(tensor.field, tensor.dtype, tensor.shape, false);
  }
}

void ResponseBuilder::Add(int field, DType dtype, Shape shape, bool bshd) {
  message_bytes_ = attn::Add(message_bytes_, ByteCount(shape, dtype));
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
        static_cast<size_t>(ByteCount(tensor.shape, tensor.dtype)));
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
    AddRowStatistics(rows, *header.mutable_row_statistics());
  }
  if (wanted_.head_statistics) AddHeadStatistics(rows, header);
}

void ResponseBuilder::AddRowStatistics(absl::Span<const RowStatistics> rows,
                                       v1::RowStatistics& message) const {
  if (wide_ == DType::kF64) {
    FillWeightStatistics<double>(rows, shape_, message);
  } else {
    FillWeightStatistics<float>(rows, shape_, message);
  }
  FillRows<int64_t>(
      rows, shape_, [](const RowStatistics& r) { return r.top_key; },
      *message.mutable_top_key());
  FillRows<int64_t>(
      rows, shape_, [](const RowStatistics& r) { return r.visible_keys; },
      *message.mutable_visible_keys());
}

void ResponseBuilder::AddHeadStatistics(absl::Span<const RowStatistics> rows,
                                        v1::AttendResponse& header) const {
  const auto length = static_cast<size_t>(shape_.q_length);
  size_t first = 0;
  for (int64_t batch = 0; batch < shape_.batch; ++batch) {
    for (int64_t head = 0; head < shape_.q_heads; ++head, first += length) {
      v1::HeadStatistics& message = *header.add_head_statistics();
      message.set_batch(batch);
      message.set_head(head);
      FillHead(Summarize(rows.subspan(first, length)), message);
    }
  }
}

}  // namespace attn
