#include <cstring>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

absl::StatusOr<AttendResult> DecodeBytes(const std::string& bytes,
                                         size_t piece_size) {
  PieceStream stream(bytes, piece_size);
  return DecodeAttendResponse(stream, static_cast<int64_t>(bytes.size()));
}

v1::AttendResponse Header() {
  v1::AttendResponse header;
  header.mutable_report()->set_kernel("rowwise");
  header.mutable_report()->set_effective_scale(0.125);
  header.add_head_statistics()->set_mean_entropy(1.5);
  SetTensor<int64_t>(v1::DATA_TYPE_I64, {1, 1, 2}, {-1, 4},
                     header.mutable_row_statistics()->mutable_top_key());
  return header;
}

ResponseTensor Make(int field, const Shape& shape,
                    const std::vector<float>& values) {
  ResponseTensor tensor;
  tensor.field = field;
  tensor.shape = shape;
  tensor.data = AlignedBuffer(values.size() * sizeof(float));
  if (!values.empty()) {
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  }
  return tensor;
}

// Header, output in BSHD and an empty lse; as chunks, and as the generated
// class has it.
std::vector<WireChunk> Encoded() {
  std::vector<ResponseTensor> tensors;
  tensors.push_back(Make(v1::AttendResponse::kLseFieldNumber, {1, 1, 0}, {}));
  tensors.push_back(
      Make(v1::AttendResponse::kOutputFieldNumber, {1, 2, 1, 2}, {1, 2, 3, 4}));
  tensors.back().bshd = true;
  return EncodeAttendResponse(Header(), std::move(tensors));
}

v1::AttendResponse Expected() {
  v1::AttendResponse response = Header();
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 1, 2}, {1, 2, 3, 4},
                   response.mutable_output());
  response.mutable_output()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 0}, {}, response.mutable_lse());
  return response;
}

TEST(AttendResponse, IsWrittenAsTheGeneratedClassWritesIt) {
  EXPECT_EQ(Join(Encoded()), Expected().SerializeAsString());
}

TEST(AttendResponse, BuffersAreHandedOverNotCopied) {
  std::vector<ResponseTensor> tensors;
  tensors.push_back(
      Make(v1::AttendResponse::kLseFieldNumber, {1, 1, 2}, {1, 2}));
  const std::byte* address = tensors[0].data.data();
  const auto chunks = EncodeAttendResponse(Header(), std::move(tensors));
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[1].owned.data(), address);
  EXPECT_EQ(chunks[1].owned_size, 8U);
}

TEST(AttendResponse, NothingGivesNoChunks) {
  EXPECT_TRUE(EncodeAttendResponse({}, {}).empty());
  const auto result = DecodeBytes("", 1);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->tensors.empty());
}

TEST(AttendResponse, DecodeUndoesEncode) {
  for (const size_t piece_size : {1U, 3U, 64U}) {
    const auto result = DecodeBytes(Join(Encoded()), piece_size);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->header.SerializeAsString(), Header().SerializeAsString());
    const ResponseTensor* output =
        result->Find(v1::AttendResponse::kOutputFieldNumber);
    ASSERT_NE(output, nullptr);
    EXPECT_TRUE(output->bshd);
    EXPECT_EQ(output->dtype, DType::kF32);
    EXPECT_EQ(DimsOf(output->shape), (std::vector<int64_t>{1, 2, 1, 2}));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(output->data.data()),
                          output->data.size()),
              Expected().output().data());
    const ResponseTensor* lse =
        result->Find(v1::AttendResponse::kLseFieldNumber);
    ASSERT_NE(lse, nullptr);
    EXPECT_NE(lse->data.data(), nullptr);
    EXPECT_EQ(result->Find(v1::AttendResponse::kWeightsFieldNumber), nullptr);
  }
}

TEST(AttendResponse, EveryTensorFieldOfTheSchemaIsGathered) {
  const auto* type = v1::AttendResponse::descriptor();
  int tensors = 0;
  v1::AttendResponse response;
  for (int i = 0; i < type->field_count(); ++i) {
    if (type->field(i)->message_type() != v1::Tensor::descriptor()) continue;
    ++tensors;
    auto* tensor = static_cast<v1::Tensor*>(
        v1::AttendResponse::GetReflection()->MutableMessage(&response,
                                                            type->field(i)));
    SetTensor<float>(v1::DATA_TYPE_F32, {1}, {1}, tensor);
  }
  const auto result = DecodeBytes(response.SerializeAsString(), 5);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tensors.size(), static_cast<size_t>(tensors));
  EXPECT_EQ(result->header.ByteSizeLong(), 0U);
}

TEST(AttendResponse, ATensorThatDoesNotFitItsShapeIsNamed) {
  v1::AttendResponse response = Expected();
  response.mutable_output()->add_shape(3);
  response.mutable_output()->clear_layout();
  const auto result = DecodeBytes(response.SerializeAsString(), 5);
  EXPECT_EQ(FieldOf(result.status()).value_or(""), "output.data");
}

TEST(AttendResponse, EveryTruncationIsAnErrorOrAShorterMessage) {
  const std::string bytes = Expected().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    v1::AttendResponse parsed;
    EXPECT_EQ(DecodeBytes(cut, 3).ok(), parsed.ParseFromString(cut)) << size;
  }
}

}  // namespace
}  // namespace attn
