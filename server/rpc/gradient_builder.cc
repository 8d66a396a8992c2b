#include "server/rpc/gradient_builder.h"

#include <utility>

#include "engine/core/row_statistics.h"
#include "server/rpc/byte_count.h"

namespace attn {
namespace {

// Report, tags and lengths of a response, generously; and of one tensor, with
// its index and shape.
constexpr int64_t kHeaderBytes = 2048;
constexpr int64_t kTensorBytes = 128;
// Tags and lengths of a layer's tensor's name.
constexpr int64_t kNameBytes = 32;
// A number of the header.
constexpr int64_t kScalarBytes = sizeof(double);

constexpr int kHeadAxis = 1;
constexpr int kSequenceAxis = 2;

using Numbers = v1::AttendBackwardResponse;

// Bytes of the rows that the engine keeps for its report.
int64_t RowBytes(const AttentionShape& shape) {
  int64_t rows = SaturatingProduct(shape.batch, shape.q_heads);
  rows = SaturatingProduct(rows, shape.q_length);
  return SaturatingProduct(rows, sizeof(RowStatistics));
}

// Where the engine writes the next tensor of `field`.
MutableTensorView& ViewOf(int field, uint32_t input, InputGradients& views) {
  switch (field) {
    case Numbers::kDQFieldNumber:
      return views.q;
    case Numbers::kDKFieldNumber:
      return views.k;
    case Numbers::kDVFieldNumber:
      return views.v;
    default:
      return views.inputs[input];
  }
}

}  // namespace

GradientBuilder::GradientBuilder(const Plan& plan, const BackwardCall& call)
    : dtype_(call.args.q.dtype == DType::kF64 ? DType::kF64 : DType::kF32),
      input_count_(call.args.inputs.size()),
      first_of_layers_(input_count_ - call.layer_refs.size()),
      layers_(call.layer_refs),
      inputs_(call.wanted.inputs) {
  message_bytes_ = SaturatingSum(
      kHeaderBytes,
      SaturatingProduct(kScalarBytes,
                        SaturatingCast(call.spec.temperatures.size())));
  const AttentionArgs& args = call.args;
  if (call.wanted.q) Add(Numbers::kDQFieldNumber, args.q, call.bshd);
  if (call.wanted.k) Add(Numbers::kDKFieldNumber, args.k, call.k_bshd);
  if (call.wanted.v) Add(Numbers::kDVFieldNumber, args.v, call.v_bshd);
  for (const uint32_t input : inputs_) {
    const bool own = input < first_of_layers_;
    Add(own ? Numbers::kDInputsFieldNumber : Numbers::kDLayersFieldNumber,
        args.inputs[input], /*bshd=*/false);
  }
  for (const LayerReference& ref : layers_) {
    message_bytes_ = SaturatingSum(
        message_bytes_,
        kNameBytes + SaturatingCast(ref.layer.size() + ref.tensor.size()));
  }
  booked_bytes_ = message_bytes_;
  for (const int64_t bytes :
       {RowBytes(plan.problem.shape),
        SaturatingCast(plan.execution->call_scratch_bytes()),
        SaturatingCast(plan.execution->worker_scratch_bytes())}) {
    booked_bytes_ = SaturatingSum(booked_bytes_, bytes);
  }
}

void GradientBuilder::Add(int field, const TensorView& view, bool bshd) {
  ResponseTensor tensor;
  tensor.field = field;
  tensor.dtype = dtype_;
  tensor.shape =
      bshd ? view.SwapAxes(kHeadAxis, kSequenceAxis).shape : view.shape;
  tensor.bshd = bshd;
  message_bytes_ = SaturatingSum(
      message_bytes_,
      SaturatingSum(kTensorBytes, TensorBytes(tensor.shape, dtype_)));
  tensors_.push_back(std::move(tensor));
}

InputGradients GradientBuilder::Allocate() {
  InputGradients views;
  views.inputs.resize(input_count_);
  size_t next_input = 0;
  for (ResponseTensor& tensor : tensors_) {
    tensor.data = AlignedBuffer(
        static_cast<size_t>(TensorBytes(tensor.shape, tensor.dtype)));
    const MutableTensorView view = MutableTensorView::Dense(
        tensor.data.data(), tensor.dtype, tensor.shape);
    const bool is_input = tensor.field == Numbers::kDInputsFieldNumber ||
                          tensor.field == Numbers::kDLayersFieldNumber;
    const uint32_t input = is_input ? inputs_[next_input++] : 0;
    ViewOf(tensor.field, input, views) =
        tensor.bshd ? view.SwapAxes(kHeadAxis, kSequenceAxis) : view;
  }
  return views;
}

void GradientBuilder::FillHeader(const ScalarGradients& scalars,
                                 v1::AttendBackwardResponse& header) const {
  for (const uint32_t input : inputs_) {
    if (input < first_of_layers_) {
      header.add_gradient_inputs(input);
      continue;
    }
    const LayerReference& ref = layers_[input - first_of_layers_];
    v1::LayerTensor& named = *header.add_gradient_layers();
    named.set_layer(ref.layer);
    named.set_tensor(ref.tensor);
  }
  header.set_d_scale(scalars.scale);
  header.set_d_softcap(scalars.softcap);
  header.mutable_d_temperatures()->Add(scalars.temperatures.begin(),
                                       scalars.temperatures.end());
}

}  // namespace attn
