#include "server/inference/infer_message.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "proto/codec/chunk_writer.h"
#include "server/inference/typed_contents.h"
#include "tests/proto/codec/piece_stream.h"
#include "tests/server/inference/infer_requests.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using Contents = oip::InferTensorContents;

constexpr int64_t kNoLimit = int64_t{1} << 40;

absl::StatusOr<InferMessage> ReadMessage(const std::string& bytes,
                                         int64_t max_payload = kNoLimit,
                                         size_t piece = 3) {
  PieceStream stream(bytes, piece);
  return ReadInferMessage(stream, static_cast<int64_t>(bytes.size()),
                          max_payload);
}

std::string BytesOf(const AlignedBuffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

absl::Status BookAll(int64_t) { return absl::OkStatus(); }

// The payload of the message's only input.
absl::StatusOr<std::string> TypedPayload(const std::string& contents,
                                         DType dtype, const Shape& shape) {
  std::string input;
  AppendDelimiter(5, contents.size(), input);
  input += contents;
  std::string bytes;
  AppendDelimiter(5, input.size(), bytes);
  auto message = ReadMessage(bytes + input);
  if (!message.ok()) return message.status();
  auto data = DecodeContents(message->contents[0], dtype, shape, "x", BookAll);
  if (!data.ok()) return data.status();
  return BytesOf(*data);
}

TEST(InferMessage, RawContentsAreGatheredAndAllElseIsParsed) {
  oip::ModelInferRequest request = PlainRequest("attention");
  request.set_id("x");
  (*request.mutable_parameters())["scale"].set_double_param(2);
  request.add_outputs()->set_name("lse");
  for (const size_t piece : {1, 3, 64, 4096}) {
    const auto message =
        ReadMessage(request.SerializeAsString(), kNoLimit, piece);
    ASSERT_TRUE(message.ok()) << message.status();
    ASSERT_EQ(message->raw.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(BytesOf(message->raw[i]),
                request.raw_input_contents(static_cast<int>(i)));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(message->raw[i].data()) %
                    kBufferAlignment,
                0U);
    }
    oip::ModelInferRequest others = request;
    others.clear_raw_input_contents();
    EXPECT_EQ(message->request.SerializeAsString(), others.SerializeAsString());
  }
}

// Fields may come in any order, and raw contents between the inputs.
TEST(InferMessage, FieldsMayComeInAnyOrder) {
  oip::ModelInferRequest inputs = PlainRequest("attention");
  oip::ModelInferRequest raw;
  raw.mutable_raw_input_contents()->Swap(inputs.mutable_raw_input_contents());
  const auto message =
      ReadMessage(raw.SerializeAsString() + inputs.SerializeAsString());
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->raw.size(), 3U);
  EXPECT_EQ(message->request.inputs_size(), 3);
  EXPECT_EQ(message->contents.size(), 3U);
}

// Each element with a tag. Were each to cost as much as all that were read
// before it, this would not end within the time that any test has.
TEST(InferMessage, ManyElementsOneByOneCostNoMoreThanTheyAreMany) {
  constexpr int64_t kCount = 12 << 20;
  std::string contents;
  for (int64_t i = 0; i < kCount; ++i) contents += {3 << 3, 1};
  const auto got = TypedPayload(contents, DType::kI64, {kCount});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->size(), kCount * sizeof(int64_t));
}

// Packed, one by one, in parts, and mixed: all that protobuf allows.
TEST(InferMessage, TypedContentsMayBeWrittenInAnyWay) {
  const std::vector<float> values = {1.5F, -2, 0.25F};
  Contents packed;
  for (const float value : values) packed.add_fp32_contents(value);
  std::string single;
  for (const float value : values) {
    single += static_cast<char>(6 << 3 | 5);
    single.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  Contents first;
  first.add_fp32_contents(values[0]);
  const std::string parts = first.SerializeAsString() + single.substr(5);
  std::string want(reinterpret_cast<const char*>(values.data()), 12);
  for (const std::string& contents :
       {packed.SerializeAsString(), single, parts}) {
    const auto got = TypedPayload(contents, DType::kF32, {3});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, want);
  }
}

TEST(InferMessage, TypedIntegersAndTruthsHaveTheirDatatypesWidth) {
  Contents ints;
  for (const int value : {-128, 127, 0}) ints.add_int_contents(value);
  const int32_t wide[] = {-128, 127, 0};
  EXPECT_EQ(*TypedPayload(ints.SerializeAsString(), DType::kI8, {3}),
            std::string("\x80\x7f\0", 3));
  EXPECT_EQ(*TypedPayload(ints.SerializeAsString(), DType::kI32, {3}),
            std::string(reinterpret_cast<const char*>(wide), sizeof(wide)));
  Contents longs;
  const int64_t far[] = {int64_t{1} << 62, -1};
  for (const int64_t value : far) longs.add_int64_contents(value);
  EXPECT_EQ(*TypedPayload(longs.SerializeAsString(), DType::kI64, {2}),
            std::string(reinterpret_cast<const char*>(far), sizeof(far)));
  Contents truths;
  for (const bool value : {true, false, true}) truths.add_bool_contents(value);
  EXPECT_EQ(*TypedPayload(truths.SerializeAsString(), DType::kBool, {3}),
            std::string("\1\0\1", 3));
  EXPECT_EQ(*TypedPayload("", DType::kI64, {0}), "");
}

// A byte on the wire may be eight in memory: they are booked before they are
// taken, and a shape is not believed.
TEST(InferMessage, WhatTypedContentsTakeIsBooked) {
  Contents zeros;
  for (int i = 0; i < 100; ++i) zeros.add_int64_contents(0);
  InferContents contents;
  contents.present = true;
  contents.encoded = zeros.SerializeAsString();
  int64_t booked = 0;
  const auto refuse = [&booked](int64_t bytes) {
    booked += bytes;
    return absl::ResourceExhaustedError("full");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(
      DecodeContents(contents, DType::kI64, {100}, "x", refuse).status()));
  EXPECT_EQ(booked, 800);
  contents.encoded = zeros.SerializeAsString();
  const auto huge =
      DecodeContents(contents, DType::kI64, {int64_t{1} << 40}, "x", refuse);
  EXPECT_TRUE(absl::IsInvalidArgument(huge.status())) << huge.status();
  EXPECT_EQ(booked, 800);
}

TEST(InferMessage, WhatIsTooMuchIsRefused) {
  const std::string bytes = PlainRequest("attention").SerializeAsString();
  const auto payload = ReadMessage(bytes, 3 * 96 - 1);
  EXPECT_TRUE(absl::IsResourceExhausted(payload.status())) << payload.status();
  EXPECT_TRUE(ReadMessage(bytes, 3 * 96).ok());

  oip::ModelInferRequest request;
  request.set_model_name(std::string((1 << 20) + 1, 'x'));
  const auto metadata =
      ReadMessage(request.SerializeAsString(), kNoLimit, 4096);
  EXPECT_TRUE(absl::IsResourceExhausted(metadata.status()));
  EXPECT_THAT(std::string(metadata.status().message()), HasSubstr("metadata"));

  request.Clear();
  for (int i = 0; i <= 256; ++i) request.add_raw_input_contents("");
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadMessage(request.SerializeAsString()).status()));
  request.Clear();
  for (int i = 0; i <= 256; ++i) request.add_inputs();
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadMessage(request.SerializeAsString()).status()));
}

TEST(InferMessage, UnknownFieldsArePassedOver) {
  oip::ModelInferRequest request = PlainRequest("attention");
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(99, 7);
  auto& input = *request.mutable_inputs(0);
  input.GetReflection()->MutableUnknownFields(&input)->AddLengthDelimited(
      98, "other");
  const auto message = ReadMessage(request.SerializeAsString());
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->request.inputs(0).name(), "q");
}

// Every prefix of a message is taken whole or refused; the generated parser
// agrees which.
TEST(InferMessage, AMessageThatIsCutShortIsMalformedAsForProtobuf) {
  oip::ModelInferRequest request = PlainRequest("attention");
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  request.mutable_inputs(1)->mutable_contents()->add_bool_contents(true);
  (*request.mutable_parameters())["causal"].set_bool_param(true);
  const std::string bytes = request.SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string prefix = bytes.substr(0, size);
    oip::ModelInferRequest parsed;
    EXPECT_EQ(ReadMessage(prefix).ok(), parsed.ParseFromString(prefix)) << size;
  }
}

}  // namespace
}  // namespace attn
