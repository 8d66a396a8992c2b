#include "engine/projections/step.h"

namespace attn {
namespace {

// [B, S, in] as [B, 1, S, in].
template <typename Tensor>
Tensor ByHead(const Tensor& tensor) {
  if (tensor.shape.rank() != 3) return tensor;
  Tensor view = tensor;
  view.shape = {tensor.shape[0], 1, tensor.shape[1], tensor.shape[2]};
  view.strides = {tensor.strides[0], 0, tensor.strides[1], tensor.strides[2]};
  return view;
}

}  // namespace

TensorView RowSource::View(const KernelCall& call) const {
  switch (place) {
    case Place::kQ:
      return ByHead(call.args->q);
    case Place::kK:
      return ByHead(call.args->k);
    case Place::kV:
      return ByHead(call.args->v);
    case Place::kOutputGradient:
      return ByHead(call.problem->gradients.any() ? call.cotangents.output
                                                  : call.args->d_output);
    case Place::kScratch:
      break;
  }
  TensorView view;
  view.data = call.scratch + offset;
  view.dtype = dtype;
  view.shape = shape;
  view.strides = {batch_stride, head_stride, row_stride, 1};
  return view;
}

MutableTensorView RowSource::Target(const KernelCall& call) const {
  switch (place) {
    case Place::kQ:
      return ByHead(call.gradients.q);
    case Place::kK:
      return ByHead(call.gradients.k);
    case Place::kV:
      return ByHead(call.gradients.v);
    case Place::kOutputGradient:
      return {};
    case Place::kScratch:
      break;
  }
  MutableTensorView view;
  view.data = call.scratch + offset;
  view.dtype = dtype;
  view.shape = shape;
  view.strides = {batch_stride, head_stride, row_stride, 1};
  return view;
}

RowCount CountRows(const Problem& problem, const RowSource& source) {
  const AttentionShape& shape = problem.shape;
  switch (source.place) {
    case RowSource::Place::kK:
    case RowSource::Place::kV:
      return {shape.batch, shape.kv_length};
    case RowSource::Place::kQ:
    case RowSource::Place::kOutputGradient:
      return {shape.batch, shape.q_length};
    case RowSource::Place::kScratch:
      break;
  }
  return {source.shape[0], source.shape[2]};
}

}  // namespace attn
