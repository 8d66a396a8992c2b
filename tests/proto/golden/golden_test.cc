// Messages that protoc encoded once: they must mean and give the same for ever.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/codec/attend_stream_codec.h"
#include "proto/codec/backward_codec.h"
#include "proto/codec/session_codec.h"
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
  ExpectTextMeansHex<v1::AttendBackwardRequest>("backward");
  ExpectTextMeansHex<v1::AttendBackwardResponse>("backward_response");
  ExpectTextMeansHex<v1::AttendStreamRequest>("stream_header");
  ExpectTextMeansHex<v1::AttendStreamRequest>("stream_chunk");
  ExpectTextMeansHex<v1::AttendStreamResponse>("stream_status");
  ExpectTextMeansHex<v1::StepRequest>("step");
  ExpectTextMeansHex<v1::StepStreamRequest>("step_stream");
  ExpectTextMeansHex<v1::StepResponse>("step_response");
}

StreamMessage ReadStream(const std::string& bytes,
                         const google::protobuf::Descriptor* type) {
  PieceStream stream(bytes, 3);
  const auto message =
      ReadStreamMessage(stream, static_cast<int64_t>(bytes.size()), type);
  EXPECT_TRUE(message.ok()) << message.status();
  return message.value_or(StreamMessage());
}

TEST(Golden, TheMessagesOfAStreamMeanTheSame) {
  const auto* type = v1::AttendStreamRequest::descriptor();
  std::string bytes = ReadGoldenHex("stream_header.hex");
  const StreamMessage opening = ReadStream(bytes, type);
  EXPECT_EQ(opening.call, 7);
  EXPECT_EQ(opening.timeout_ms, 1500);
  EXPECT_EQ(opening.max_message_bytes, 1 << 20);
  PieceStream stream(bytes, 3);
  ASSERT_TRUE(stream.Skip(static_cast<int>(opening.body.offset)));
  ChunkAssembly assembly;
  const auto call = DecodeAttendHeader(
      stream, opening.body.size, kRoomy,
      [](int64_t) { return absl::OkStatus(); }, assembly);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(assembly.total_bytes(), 4);
  EXPECT_THAT(ValuesOf<float>(call->args.k), ElementsAre(2, 3));

  bytes = ReadGoldenHex("stream_chunk.hex");
  const StreamChunk chunk = ReadStream(bytes, type).chunk;
  EXPECT_EQ(RequestFieldOf(chunk).value_or(0),
            v1::AttendRequest::kQFieldNumber);
  EXPECT_EQ(chunk.offset, 2);
  EXPECT_EQ(
      Join(EncodeStreamChunk(7, chunk,
                             reinterpret_cast<const std::byte*>(bytes.data()) +
                                 chunk.data.offset)),
      bytes);

  bytes = ReadGoldenHex("stream_status.hex");
  const WireRange body =
      ReadStream(bytes, v1::AttendStreamResponse::descriptor()).body;
  const absl::Status status = DecodeCallStatus(
      {bytes.data() + body.offset, static_cast<size_t>(body.size)});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "q.shape");
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
  spec.score = DotScore{.scale = 0.5, .learned_scale = std::nullopt};
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

TEST(Golden, TheBackwardRequestMeansTheSame) {
  const std::string bytes = ReadGoldenHex("backward.hex");
  PieceStream stream(bytes, 3);
  const auto call =
      DecodeBackwardRequest(stream, static_cast<int64_t>(bytes.size()), kRoomy);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->wanted.q);
  EXPECT_FALSE(call->wanted.k || call->wanted.v);
  EXPECT_THAT(call->wanted.inputs, ElementsAre(1));
  EXPECT_TRUE(call->bshd && call->k_bshd && call->v_bshd);
  EXPECT_THAT(ValuesOf<float>(call->args.q), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf<float>(call->cotangents.output), ElementsAre(1, -1));
  EXPECT_EQ(DimsOf(call->cotangents.output.shape),
            (std::vector<int64_t>{1, 2, 1, 1}));
  EXPECT_THAT(ValuesOf<double>(call->cotangents.lse), ElementsAre(1, 2));

  BackwardMessage message;
  message.spec = call->spec;
  message.args = call->args;
  message.bshd = call->bshd;
  message.request_id = call->request_id;
  message.wanted = call->wanted;
  message.cotangents = call->cotangents;
  EXPECT_EQ(Join(EncodeBackwardRequest(message)), bytes);
}

TEST(Golden, TheBackwardResponseMeansTheSame) {
  const std::string bytes = ReadGoldenHex("backward_response.hex");
  PieceStream stream(bytes, 3);
  auto result =
      DecodeBackwardResponse(stream, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header.d_scale(), -1);
  EXPECT_EQ(result->header.d_softcap(), 0.25);
  EXPECT_THAT(result->header.d_temperatures(), ElementsAre(0.5, 2));
  const ResponseTensor* last = FindInputGradient(*result, 2);
  ASSERT_NE(last, nullptr);
  EXPECT_THAT(ValuesOf<float>(TensorView::Dense(last->data.data(), last->dtype,
                                                last->shape)),
              ElementsAre(4));
  EXPECT_EQ(result->tensors.size(), 5U);
  EXPECT_EQ(
      Join(EncodeBackwardResponse(result->header, std::move(result->tensors))),
      bytes);
}

StepMessage ToStepMessage(const StepCall& call) {
  StepMessage message;
  message.session_id = call.session_id;
  message.epoch = call.epoch;
  message.step = call.step;
  message.position = call.position;
  message.layers = call.layers;
  message.request_id = call.request_id;
  message.priority = call.priority;
  return message;
}

TEST(Golden, TheStepMeansTheSame) {
  std::string bytes = ReadGoldenHex("step.hex");
  PieceStream stream(bytes, 3);
  const auto call =
      DecodeStepRequest(stream, static_cast<int64_t>(bytes.size()), kRoomy);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->session_id, "00112233445566778899aabbccddeeff");
  EXPECT_EQ(call->epoch, 3);
  EXPECT_EQ(call->step, 41);
  EXPECT_EQ(call->position, 4096);
  EXPECT_EQ(call->layers[0].layer, 2);
  EXPECT_EQ(call->layers[1].layer, 0);
  EXPECT_TRUE(call->layers[0].bshd);
  EXPECT_FALSE(call->layers[1].bshd);
  EXPECT_EQ(DimsOf(call->layers[0].q.shape),
            (std::vector<int64_t>{1, 1, 2, 1}));
  EXPECT_THAT(ValuesOf<float>(call->layers[0].q), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf<float>(call->layers[1].q), ElementsAre(3, 4));
  // 3, 4 in bfloat16 and in binary16.
  EXPECT_THAT(ValuesOf<uint16_t>(call->layers[1].k),
              ElementsAre(0x4040, 0x4080));
  EXPECT_THAT(ValuesOf<uint16_t>(call->layers[1].v),
              ElementsAre(0x4200, 0x4400));
  EXPECT_EQ(Join(EncodeStepRequest(ToStepMessage(*call))), bytes);
}

TEST(Golden, TheStreamedStepMeansTheSame) {
  const std::string bytes = ReadGoldenHex("step_stream.hex");
  PieceStream stream(bytes, 3);
  const auto call = DecodeStepStreamRequest(
      stream, static_cast<int64_t>(bytes.size()), kRoomy);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->step, 0);
  EXPECT_EQ(call->layers[0].layer, 0);
  EXPECT_THAT(ValuesOf<float>(call->layers[0].v), ElementsAre(3));
  EXPECT_EQ(Join(EncodeStepStreamRequest(ToStepMessage(*call))), bytes);
}

TEST(Golden, TheAnswerToAStepMeansTheSame) {
  const std::string bytes = ReadGoldenHex("step_response.hex");
  PieceStream stream(bytes, 3);
  auto result = DecodeStepResponse(stream, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header.length(), 4097);
  ASSERT_EQ(result->tensors.size(), 2U);
  EXPECT_TRUE(result->tensors[0].bshd);
  EXPECT_EQ(result->tensors[1].dtype, DType::kF16);
  EXPECT_EQ(
      Join(EncodeStepResponse(result->header, std::move(result->tensors))),
      bytes);
}

}  // namespace
}  // namespace attn
