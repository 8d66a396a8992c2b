// Calls in parts: a header and chunks give what the whole message gives.
#include "proto/codec/attend_stream_codec.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/status_codec.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

absl::Status Agree(int64_t) { return absl::OkStatus(); }

absl::StatusOr<AttendCall> DecodeHeader(const v1::AttendRequest& header,
                                        ChunkAssembly& assembly,
                                        const BookBytes& book = Agree,
                                        size_t piece_size = 3) {
  const std::string bytes = header.SerializeAsString();
  PieceStream stream(bytes, piece_size);
  return DecodeAttendHeader(stream, static_cast<int64_t>(bytes.size()), kRoomy,
                            book, assembly);
}

v1::AttendRequest WithoutData(v1::AttendRequest request) {
  for (v1::Tensor* tensor :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    tensor->clear_data();
  }
  for (v1::Tensor& input : *request.mutable_inputs()) input.clear_data();
  return request;
}

// Puts `data` in place, `step` bytes at a time.
absl::Status Fill(ChunkAssembly& assembly, int field, uint32_t index,
                  const std::string& data, size_t step) {
  for (size_t offset = 0; offset < data.size(); offset += step) {
    const size_t size = std::min(step, data.size() - offset);
    const auto target = assembly.Next(
        field, index, static_cast<int64_t>(offset), static_cast<int64_t>(size));
    if (!target.ok()) return target.status();
    std::memcpy(*target, data.data() + offset, size);
  }
  return absl::OkStatus();
}

v1::AttendRequest RequestWithInputs() {
  v1::AttendRequest request = SmallRequest();
  for (const float value : {1.5F, 2.5F}) {
    SetTensor<float>(v1::DATA_TYPE_F32, {2, 3}, std::vector<float>(6, value),
                     request.add_inputs());
    request.mutable_spec()
        ->add_biases()
        ->mutable_dense()
        ->mutable_tensor()
        ->set_input(static_cast<uint32_t>(request.inputs_size() - 1));
  }
  return request;
}

TEST(AttendHeader, AndItsChunksGiveTheWholeCall) {
  const v1::AttendRequest request = RequestWithInputs();
  ChunkAssembly assembly;
  const auto call = DecodeHeader(WithoutData(request), assembly);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(assembly.complete());
  using Numbers = v1::AttendRequest;
  ASSERT_TRUE(
      Fill(assembly, Numbers::kVFieldNumber, 0, request.v().data(), 5).ok());
  ASSERT_TRUE(
      Fill(assembly, Numbers::kQFieldNumber, 0, request.q().data(), 7).ok());
  ASSERT_TRUE(Fill(assembly, Numbers::kInputsFieldNumber, 1,
                   request.inputs(1).data(), 24)
                  .ok());
  ASSERT_TRUE(Fill(assembly, Numbers::kInputsFieldNumber, 0,
                   request.inputs(0).data(), 1)
                  .ok());
  EXPECT_EQ(FieldOf(assembly.CheckComplete()), "k.data");
  ASSERT_TRUE(
      Fill(assembly, Numbers::kKFieldNumber, 0, request.k().data(), 24).ok());
  EXPECT_TRUE(assembly.complete());
  EXPECT_TRUE(assembly.CheckComplete().ok());
  EXPECT_TRUE(assembly.CheckValues().ok());
  EXPECT_EQ(BytesOf(call->args.q), request.q().data());
  EXPECT_EQ(BytesOf(call->args.k), request.k().data());
  EXPECT_EQ(BytesOf(call->args.v), request.v().data());
  EXPECT_EQ(BytesOf(call->args.inputs[0]), request.inputs(0).data());
  EXPECT_EQ(BytesOf(call->args.inputs[1]), request.inputs(1).data());
  for (const AlignedBuffer& buffer : call->storage) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0);
  }
}

TEST(AttendHeader, BooksEveryByteBeforeMemoryIsTaken) {
  const v1::AttendRequest request = SmallRequest();
  ChunkAssembly assembly;
  int64_t asked = 0;
  const auto refused =
      DecodeHeader(WithoutData(request), assembly, [&asked](int64_t bytes) {
        asked = bytes;
        return absl::ResourceExhaustedError("full");
      });
  EXPECT_EQ(refused.status().message(), "full");
  EXPECT_EQ(asked, static_cast<int64_t>(request.q().data().size() +
                                        request.k().data().size() +
                                        request.v().data().size()));
}

TEST(AttendHeader, OfAnyShapeIsCountedWithoutOverflow) {
  v1::AttendRequest request = WithoutData(SmallRequest());
  for (v1::Tensor* tensor : {request.mutable_q(), request.mutable_k()}) {
    tensor->set_dtype(v1::DATA_TYPE_F64);
    tensor->set_shape(2, int64_t{1} << 40);
  }
  ChunkAssembly assembly;
  int64_t asked = 0;
  EXPECT_FALSE(DecodeHeader(request, assembly, [&asked](int64_t bytes) {
                 asked = bytes;
                 return absl::ResourceExhaustedError("full");
               }).ok());
  EXPECT_GT(asked, int64_t{1} << 44);
  request.mutable_q()->set_shape(1, int64_t{1} << 40);
  EXPECT_EQ(FieldOf(DecodeHeader(request, assembly).status()), "q.shape");
}

TEST(AttendHeader, ItsOwnFaultsAreFoundBeforeChunksCome) {
  v1::AttendRequest request = WithoutData(SmallRequest());
  request.mutable_spec()->add_biases();
  ChunkAssembly assembly;
  bool asked = false;
  const auto call = DecodeHeader(request, assembly, [&asked](int64_t) {
    asked = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(FieldOf(call.status()), "spec.biases[0].kind");
  EXPECT_FALSE(asked);
  v1::AttendRequest missing = WithoutData(SmallRequest());
  missing.clear_v();
  ChunkAssembly other;
  EXPECT_EQ(FieldOf(DecodeHeader(missing, other).status()), "v");
}

TEST(ChunkAssembly, TakesNoChunkThatDoesNotFit) {
  ChunkAssembly assembly;
  const auto call = DecodeHeader(WithoutData(SmallRequest()), assembly);
  ASSERT_TRUE(call.ok());
  constexpr int kQ = v1::AttendRequest::kQFieldNumber;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  ASSERT_TRUE(assembly.Next(kQ, 0, 0, 8).ok());
  for (const int64_t offset :
       {int64_t{0}, int64_t{7}, int64_t{9}, int64_t{-1}, kMax, kMin}) {
    EXPECT_EQ(FieldOf(assembly.Next(kQ, 0, offset, 8).status()),
              "chunk.offset");
  }
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{25}, kMax}) {
    EXPECT_EQ(FieldOf(assembly.Next(kQ, 0, 8, size).status()), "chunk.data");
  }
  EXPECT_EQ(FieldOf(assembly.Next(kQ, 1, 8, 8).status()), "chunk.tensor");
  EXPECT_EQ(
      FieldOf(
          assembly.Next(v1::AttendRequest::kQkvFieldNumber, 0, 0, 8).status()),
      "chunk.tensor");
  // What was refused was not counted.
  EXPECT_EQ(assembly.received_bytes(), 8);
  EXPECT_TRUE(assembly.Next(kQ, 0, 8, 24).ok());
  EXPECT_THAT(std::string(assembly.Next(kQ, 0, 32, 1).status().message()),
              HasSubstr("all 32 bytes came"));
}

TEST(SplitAttendRequest, HasTheHeaderAndThePayloadsOfTheWholeMessage) {
  const v1::AttendRequest request = RequestWithInputs();
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok());
  AttendMessage message;
  message.spec = call->spec;
  message.args = call->args;
  message.wanted.output = true;
  const SplitMessage split = SplitAttendRequest(message);
  v1::AttendRequest whole;
  ASSERT_TRUE(whole.ParseFromString(Join(EncodeAttendRequest(message))));
  v1::AttendRequest header;
  ASSERT_TRUE(header.ParseFromString(Join(split.header)));
  EXPECT_EQ(header.SerializeAsString(), WithoutData(whole).SerializeAsString());
  ASSERT_EQ(split.payloads.size(), 5);
  EXPECT_EQ(split.payloads[3].index, 0);
  EXPECT_EQ(split.payloads[4].index, 1);
  EXPECT_EQ(split.payloads[4].field, v1::AttendRequest::kInputsFieldNumber);
  // Nothing was copied.
  EXPECT_EQ(split.payloads[0].payload.borrowed, message.args.q.data);
}

TEST(SplitAttendResponse, IsPutTogetherAgain) {
  v1::AttendResponse header;
  header.mutable_report()->set_kernel("k");
  std::vector<ResponseTensor> tensors;
  for (const int field : {v1::AttendResponse::kWeightsFieldNumber,
                          v1::AttendResponse::kOutputFieldNumber}) {
    ResponseTensor& tensor = tensors.emplace_back();
    tensor.field = field;
    tensor.shape = {2, 3};
    tensor.data = AlignedBuffer(24);
    std::memset(tensor.data.data(), field, 24);
  }
  SplitMessage split = SplitAttendResponse(header, std::move(tensors));
  const std::string bytes = Join(split.header);
  PieceStream stream(bytes, 2);
  ChunkAssembly assembly;
  const auto result = DecodeAttendResponseHeader(
      stream, static_cast<int64_t>(bytes.size()), Agree, assembly);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header.report().kernel(), "k");
  for (const DetachedPayload& part : split.payloads) {
    const std::string data(
        reinterpret_cast<const char*>(part.payload.owned.data()),
        part.payload.size);
    const StreamChunk chunk{.tensor = OutputSlotOf(part.field)};
    const auto field = ResponseFieldOf(chunk);
    ASSERT_TRUE(field.ok());
    EXPECT_TRUE(Fill(assembly, *field, 0, data, 9).ok());
  }
  EXPECT_TRUE(assembly.complete());
  const ResponseTensor* weights =
      result->Find(v1::AttendResponse::kWeightsFieldNumber);
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(static_cast<int>(weights->data.data()[23]),
            v1::AttendResponse::kWeightsFieldNumber);
}

// A tensor of either message that no chunk can name could not be sent.
TEST(TensorSlots, NameEveryTensorOfBothMessages) {
  const auto* tensor = v1::Tensor::descriptor();
  const auto* request = v1::AttendRequest::descriptor();
  for (int i = 0; i < request->field_count(); ++i) {
    if (request->field(i)->message_type() != tensor) continue;
    const int number = request->field(i)->number();
    const StreamChunk chunk{.tensor = TensorSlotOf(number)};
    EXPECT_EQ(RequestFieldOf(chunk).value_or(0), number);
  }
  const auto* response = v1::AttendResponse::descriptor();
  for (int i = 0; i < response->field_count(); ++i) {
    if (response->field(i)->message_type() != tensor) continue;
    const int number = response->field(i)->number();
    const StreamChunk chunk{.tensor = OutputSlotOf(number)};
    EXPECT_EQ(ResponseFieldOf(chunk).value_or(0), number);
  }
  EXPECT_EQ(FieldOf(RequestFieldOf({.tensor = 0}).status()), "chunk.tensor");
  EXPECT_EQ(
      FieldOf(ResponseFieldOf({.tensor = v1::OUTPUT_ROW_STATISTICS}).status()),
      "chunk.tensor");
}

TEST(CallStatus, IsTheStatusOfAUnaryCall) {
  const absl::Status field = FieldError("q.shape", "a", "b");
  const absl::Status decoded =
      DecodeCallStatus(ToGrpcStatus(field).error_details());
  EXPECT_EQ(decoded.code(), field.code());
  EXPECT_EQ(decoded.message(), field.message());
  EXPECT_EQ(FieldOf(decoded), "q.shape");
  const absl::Status full = WithRetryDelay(absl::ResourceExhaustedError("full"),
                                           absl::Milliseconds(50));
  EXPECT_EQ(RetryDelayOf(DecodeCallStatus(ToGrpcStatus(full).error_details())),
            absl::Milliseconds(50));
  EXPECT_EQ(DecodeCallStatus("\xff").code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(DecodeCallStatus("").ok());
}

}  // namespace
}  // namespace attn
