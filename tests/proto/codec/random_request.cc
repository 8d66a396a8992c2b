#include "tests/proto/codec/random_request.h"

#include "engine/core/dtype.h"
#include "proto/codec/spec_codec.h"
#include "tests/proto/codec/random_spec.h"

namespace attn {

v1::AttendRequest RandomRequest::Draw() {
  v1::AttendRequest request;
  if (Below(4) > 0) {
    RandomSpec specs(static_cast<uint32_t>(random_()));
    *request.mutable_spec() = EncodeSpec(specs.Draw());
  }
  for (int i = Below(4); i > 0; --i) {
    request.add_outputs(static_cast<v1::Output>(1 + Below(v1::Output_MAX)));
  }
  if (Below(2) > 0) request.set_output_dtype(v1::DATA_TYPE_F16);
  for (int i = Below(3); i > 0; --i) request.add_q_lengths(Below(1 << 20));
  for (int i = Below(3); i > 0; --i) request.add_kv_lengths(-Below(5));
  for (int i = Below(3); i > 0; --i) request.add_q_offsets(Below(9));
  for (int i = Below(3); i > 0; --i) request.add_kv_offsets(Below(9));
  if (Below(2) > 0) request.set_kernel(Text());
  if (Below(2) > 0) request.set_request_id(Text());
  for (v1::Tensor* tensor :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    FillTensor(4, tensor);
    tensor->set_layout(static_cast<v1::TensorLayout>(Below(3)));
  }
  for (int i = Below(4); i > 0; --i) {
    FillTensor(Below(7), request.add_inputs());
  }
  return request;
}

void RandomRequest::FillTensor(int rank, v1::Tensor* tensor) {
  tensor->set_dtype(static_cast<v1::DataType>(1 + Below(8)));
  size_t size = SizeOf(static_cast<DType>(tensor->dtype()));
  for (int axis = 0; axis < rank; ++axis) {
    tensor->add_shape(Below(8) == 0 ? 0 : 1 + Below(4));
    size *= static_cast<size_t>(tensor->shape(axis));
  }
  std::string& data = *tensor->mutable_data();
  for (size_t i = 0; i < size; ++i) {
    const int bound = tensor->dtype() == v1::DATA_TYPE_BOOL ? 2 : 256;
    data.push_back(static_cast<char>(Below(bound)));
  }
}

std::string RandomRequest::Text() {
  std::string text;
  for (int i = Below(20); i > 0; --i) {
    text.push_back(static_cast<char>('a' + Below(26)));
  }
  return text;
}

}  // namespace attn
