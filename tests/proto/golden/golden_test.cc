// Messages that protoc encoded once: they must mean and give the same for ever.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/proto/codec/codec_fixture.h"
#include "tests/proto/golden/golden_files.h"

namespace attn {
namespace {

using testing::ElementsAre;

template <typename T>
std::vector<T> ValuesOf(const TensorView& view) {
  const auto* values = reinterpret_cast<const T*>(view.data);
  return {values, values + view.shape.element_count()};
}

AttendMessage ToMessage(const AttendCall& call) {
  AttendMessage message;
  message.spec = call.spec;
  message.args = call.args;
  message.wanted = call.wanted;
  message.bshd = call.bshd;
  message.kernel = call.kernel;
  message.request_id = call.request_id;
  return message;
}

template <typename Message>
void ExpectTextMeansHex(const std::string& name) {
  Message from_text;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      ReadGolden(name + ".txtpb"), &from_text));
  EXPECT_EQ(from_text.SerializeAsString(), ReadGoldenHex(name + ".hex"));
}

TEST(Golden, TheTextSaysWhatTheBytesAre) {
  ExpectTextMeansHex<v1::AttendRequest>("attend_minimal");
  ExpectTextMeansHex<v1::AttendRequest>("attend_full");
  ExpectTextMeansHex<v1::AttendResponse>("response");
}

TEST(Golden, TheMinimalRequestMeansTheSame) {
  const std::string bytes = ReadGoldenHex("attend_minimal.hex");
  const auto call = Decode(bytes, kRoomy, 3);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->spec, AttentionSpec());
  EXPECT_TRUE(call->wanted.output);
  EXPECT_FALSE(call->wanted.lse);
  EXPECT_EQ(call->output_dtype, DType::kF32);
  EXPECT_FALSE(call->bshd);
  EXPECT_THAT(ValuesOf<float>(call->args.q), ElementsAre(1));
  EXPECT_THAT(ValuesOf<float>(call->args.k), ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf<float>(call->args.v), ElementsAre(4, 5));
  EXPECT_EQ(Join(EncodeAttendRequest(ToMessage(*call))), bytes);
}

AttentionSpec FullSpec() {
  AttentionSpec spec;
  spec.score = DotScore{.scale = 0.5};
  spec.softcap = 30;
  spec.biases = {DenseBias{.input = 1}, AlibiBias{.slopes = {0.25, 0.0625}}};
  spec.masks = {
      CausalMask{Alignment::kBottomRight},
      WindowMask{.left = 3, .right = 0, .alignment = Alignment::kTopLeft},
      DenseMask{.input = 0}};
  spec.temperatures = {1, 2};
  return spec;
}

TEST(Golden, TheFullRequestMeansTheSame) {
  const std::string bytes = ReadGoldenHex("attend_full.hex");
  const auto call = Decode(bytes, kRoomy, 3);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->spec, FullSpec());
  const WantedOutputs& wanted = call->wanted;
  EXPECT_TRUE(wanted.output && wanted.lse && wanted.logits &&
              wanted.masked_logits && wanted.weights && wanted.row_statistics &&
              wanted.head_statistics);
  EXPECT_EQ(call->output_dtype, DType::kF16);
  EXPECT_THAT(call->args.q_lengths, ElementsAre(1));
  EXPECT_THAT(call->args.kv_lengths, ElementsAre(2));
  EXPECT_EQ(call->kernel, "reference");
  EXPECT_EQ(call->request_id, "golden");
  EXPECT_TRUE(call->bshd);
  // 1, 2 and 3, 4 in bfloat16.
  EXPECT_THAT(ValuesOf<uint16_t>(call->args.q), ElementsAre(0x3f80, 0x4000));
  EXPECT_EQ(DimsOf(call->args.q.shape), (std::vector<int64_t>{1, 2, 1, 1}));
  EXPECT_THAT(ValuesOf<uint16_t>(call->args.k), ElementsAre(0x4040, 0x4080));
  EXPECT_EQ(DimsOf(call->args.k.shape), (std::vector<int64_t>{1, 1, 2, 1}));
  EXPECT_EQ(call->args.inputs[0].dtype, DType::kBool);
  EXPECT_THAT(ValuesOf<uint8_t>(call->args.inputs[0]), ElementsAre(1, 0));
  EXPECT_THAT(ValuesOf<double>(call->args.inputs[1]), ElementsAre(-1));

  AttendMessage message = ToMessage(*call);
  message.output_dtype = DType::kF16;
  EXPECT_EQ(Join(EncodeAttendRequest(message)), bytes);
}

TEST(Golden, TheResponseMeansTheSame) {
  const std::string bytes = ReadGoldenHex("response.hex");
  PieceStream stream(bytes, 3);
  auto result =
      DecodeAttendResponse(stream, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header.report().effective_scale(), 0.125);
  EXPECT_EQ(result->header.report().timings().send_ns(), 4);
  EXPECT_EQ(result->header.head_statistics(0).top_key(), -1);
  EXPECT_EQ(result->header.row_statistics().visible_keys().data()[0], 2);
  const ResponseTensor* output =
      result->Find(v1::AttendResponse::kOutputFieldNumber);
  ASSERT_NE(output, nullptr);
  EXPECT_THAT(ValuesOf<float>(TensorView::Dense(output->data.data(),
                                                output->dtype, output->shape)),
              ElementsAre(1, 2));
  EXPECT_EQ(result->tensors.size(), 3U);
  EXPECT_EQ(
      Join(EncodeAttendResponse(result->header, std::move(result->tensors))),
      bytes);
}

}  // namespace
}  // namespace attn
