#include "proto/codec/layer_codec.h"

#include <cstring>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::NamedTensor Named(const std::string& name, std::vector<float> values) {
  v1::NamedTensor tensor;
  tensor.set_name(name);
  tensor.mutable_tensor()->set_dtype(v1::DATA_TYPE_F32);
  tensor.mutable_tensor()->add_shape(static_cast<int64_t>(values.size()));
  tensor.mutable_tensor()->mutable_data()->assign(
      reinterpret_cast<const char*>(values.data()),
      values.size() * sizeof(float));
  return tensor;
}

v1::PutLayerRequest TwoTensors() {
  v1::PutLayerRequest request;
  request.set_name("layer");
  *request.add_tensors() = Named("w", {1, 2, 3});
  *request.add_tensors() = Named("b", {});
  return request;
}

absl::StatusOr<PutLayerCall> Decode(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream stream(
      bytes.data(), static_cast<int>(bytes.size()), 5);
  return DecodePutLayerRequest(stream, static_cast<int64_t>(bytes.size()), 4);
}

std::string FieldOfError(const v1::PutLayerRequest& request) {
  return FieldOf(Decode(request.SerializeAsString()).status()).value_or("none");
}

std::string Join(const std::vector<WireChunk>& chunks) {
  std::string bytes;
  for (const WireChunk& chunk : chunks) {
    bytes += chunk.bytes;
    bytes.append(reinterpret_cast<const char*>(chunk.borrowed),
                 chunk.borrowed_size);
  }
  return bytes;
}

TEST(LayerCodecTest, ReadsWhatTheGeneratedCodeWrites) {
  const auto call = Decode(TwoTensors().SerializeAsString());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->name, "layer");
  ASSERT_THAT(call->tensors, SizeIs(2));
  EXPECT_EQ(call->tensors[0].name, "w");
  EXPECT_EQ(call->tensors[0].view.shape, (Shape{3}));
  const float expected[] = {1, 2, 3};
  EXPECT_EQ(std::memcmp(call->tensors[0].view.data, expected, 12), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(call->tensors[0].view.data) % 64, 0u);
  EXPECT_EQ(call->tensors[1].view.shape, (Shape{0}));
}

TEST(LayerCodecTest, WritesWhatTheGeneratedCodeWrites) {
  const v1::PutLayerRequest request = TwoTensors();
  const float values[] = {1, 2, 3};
  const std::vector<NamedView> views = {
      {"w", TensorView::Dense(values, DType::kF32, Shape{3})},
      {"b", TensorView::Dense(values, DType::kF32, Shape{0})}};
  EXPECT_EQ(Join(EncodePutLayerRequest("layer", views)),
            request.SerializeAsString());
  v1::GetLayerResponse response;
  response.mutable_layer()->set_name("layer");
  response.mutable_layer()->set_version(7);
  *response.mutable_tensors() = request.tensors();
  EXPECT_EQ(Join(EncodeGetLayerResponse(response.layer(), views)),
            response.SerializeAsString());
}

TEST(LayerCodecTest, ErrorsNameTheTensor) {
  v1::PutLayerRequest request = TwoTensors();
  request.mutable_tensors(1)->mutable_tensor()->set_data("x");
  EXPECT_EQ(FieldOfError(request), "tensors[1].tensor.data");
  request = TwoTensors();
  request.mutable_tensors(0)->mutable_tensor()->clear_dtype();
  EXPECT_EQ(FieldOfError(request), "tensors[0].tensor.dtype");
  request = TwoTensors();
  request.mutable_tensors(1)->clear_tensor();
  EXPECT_EQ(FieldOfError(request), "tensors[1].tensor");
  request = TwoTensors();
  request.mutable_tensors(0)->mutable_tensor()->set_layout(
      v1::TENSOR_LAYOUT_BSHD);
  EXPECT_EQ(FieldOfError(request), "tensors[0].tensor.layout");
  for (int i = 0; i < 3; ++i) *request.add_tensors() = Named("x", {});
  request.mutable_tensors(0)->mutable_tensor()->clear_layout();
  EXPECT_EQ(FieldOfError(request), "tensors");
}

TEST(LayerCodecTest, EveryCutOfAMessageIsReadOrRefusedWithoutHarm) {
  const std::string bytes = TwoTensors().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    v1::PutLayerRequest request;
    const auto call = Decode(cut);
    const bool whole = request.ParseFromString(cut);
    EXPECT_TRUE(whole || !call.ok()) << size;
  }
}

TEST(LayerCodecTest, MetadataHasABoundOfItsOwn) {
  v1::PutLayerRequest request = TwoTensors();
  request.set_name(std::string((1 << 20) + 1, 'x'));
  const auto call = Decode(request.SerializeAsString());
  EXPECT_TRUE(absl::IsResourceExhausted(call.status()));
  request = TwoTensors();
  *request.mutable_tensors(0) = Named("w", std::vector<float>(1 << 19, 1));
  EXPECT_TRUE(Decode(request.SerializeAsString()).ok());
}

TEST(LayerCodecTest, AnInfoIsATensorWithoutItsBytes) {
  const v1::NamedTensorInfo info = EncodeNamedTensorInfo(
      {"w", TensorView::Dense(nullptr, DType::kBF16, Shape{2, 3})});
  EXPECT_EQ(info.name(), "w");
  EXPECT_EQ(info.tensor().dtype(), v1::DATA_TYPE_BF16);
  EXPECT_EQ(info.tensor().shape_size(), 2);
}

}  // namespace
}  // namespace attn
