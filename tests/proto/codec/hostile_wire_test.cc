// Bytes that no honest encoder writes.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/chunk_writer.h"
#include "tests/proto/codec/allocation_counter.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Numbers = v1::AttendRequest;

std::string Words(const absl::Status& status) {
  return std::string(status.message());
}

// Field `number` of AttendRequest with `content`, whatever it is.
std::string Delimited(int number, const std::string& content) {
  std::string bytes;
  AppendDelimiter(number, content.size(), bytes);
  return bytes + content;
}

// A delimited field that claims `length` bytes and has `content`.
std::string Claiming(int number, uint64_t length, const std::string& content) {
  std::string bytes;
  AppendDelimiter(number, length, bytes);
  return bytes + content;
}

std::string BadFieldOf(const std::string& bytes) {
  return FieldOf(Decode(bytes, kRoomy, 3).status()).value_or("");
}

constexpr uint64_t kHostileLengths[] = {6,
                                        uint64_t{1} << 31,
                                        (uint64_t{1} << 31) - 1,
                                        0xffffffff,
                                        uint64_t{1} << 32,
                                        (uint64_t{1} << 32) + 5,
                                        uint64_t{1} << 63,
                                        ~uint64_t{0}};

TEST(HostileWire, ATensorLongerThanTheMessageIsMalformed) {
  for (const uint64_t length : kHostileLengths) {
    EXPECT_EQ(BadFieldOf(Claiming(Numbers::kQFieldNumber, length, "hello")),
              "q")
        << length;
  }
}

TEST(HostileWire, APayloadLongerThanItsTensorIsMalformed) {
  for (const uint64_t length : kHostileLengths) {
    const std::string tensor =
        Claiming(v1::Tensor::kDataFieldNumber, length, "hello");
    // Bytes of the next field must not be taken for the payload.
    const std::string bytes = Delimited(Numbers::kKFieldNumber, tensor) +
                              Delimited(Numbers::kVFieldNumber, "");
    EXPECT_EQ(BadFieldOf(bytes), "k") << length;
  }
}

TEST(HostileWire, MetadataLongerThanTheMessageIsMalformed) {
  for (const uint64_t length : kHostileLengths) {
    EXPECT_EQ(BadFieldOf(Claiming(Numbers::kSpecFieldNumber, length, "hello")),
              "AttendRequest");
    EXPECT_EQ(BadFieldOf(Claiming(9999, length, "hello")), "AttendRequest");
  }
}

// What operator new is asked for while `bytes` are decoded. Protobuf builds its
// tables on first use; that is not counted.
size_t AllocationOfDecoding(const std::string& bytes) {
  EXPECT_TRUE(Decode(SmallRequest()).ok());
  PieceStream stream(bytes, 16384);
  const size_t before = AllocatedBytes();
  const auto call =
      DecodeAttendRequest(stream, static_cast<int64_t>(bytes.size()), kRoomy);
  return AllocatedBytes() - before;
}

TEST(HostileWire, AClaimTakesNoMemoryBeforeItIsChecked) {
  const std::string bytes = Delimited(
      Numbers::kQFieldNumber,
      Claiming(v1::Tensor::kDataFieldNumber, (1U << 31) - 1, "hello"));
  EXPECT_FALSE(Decode(bytes).ok());
  EXPECT_LT(AllocationOfDecoding(bytes), 65536U);
}

TEST(HostileWire, UnknownFieldsArePassedOver) {
  std::string bytes = Delimited(9999, "ignored");
  AppendVarint((500U << 3) | 0, bytes);  // a varint
  AppendVarint(~uint64_t{0}, bytes);
  AppendVarint((501U << 3) | 1, bytes);  // fixed64
  bytes += "8 bytes.";
  AppendVarint((502U << 3) | 3, bytes);  // a group ...
  bytes += Delimited(1, "inside");
  AppendVarint((502U << 3) | 4, bytes);  // ... and its end
  AppendVarint((503U << 3) | 5, bytes);  // fixed32
  bytes += "four";
  const auto call = Decode(bytes + SmallRequest().SerializeAsString());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(BytesOf(call->args.q), SmallRequest().q().data());
}

TEST(HostileWire, BrokenTagsAreMalformed) {
  const std::string end_group("\x0c", 1);    // end of a group never begun
  const std::string wire_type_7("\x0f", 1);  // no such wire type
  const std::string field_0("\x02\x00", 2);  // no such field
  const std::string endless(11, '\x80');     // a varint that never ends
  for (const auto& bytes : {end_group, wire_type_7, field_0, endless}) {
    EXPECT_EQ(BadFieldOf(bytes), "AttendRequest");
    EXPECT_EQ(BadFieldOf(Delimited(Numbers::kQFieldNumber, bytes)), "q");
  }
}

TEST(HostileWire, TagsAndLengthsOfSixBytesAreMalformed) {
  // Field 7, "x"; once with a padded tag, once with a padded length.
  const std::string tag("\xba\x80\x80\x80\x80\x00\x01x", 8);
  const std::string length("\x3a\x81\x80\x80\x80\x80\x00x", 8);
  for (const auto& bytes : {tag, length}) {
    EXPECT_FALSE(v1::AttendRequest().ParseFromString(bytes));
    EXPECT_EQ(BadFieldOf(bytes), "AttendRequest");
  }
}

TEST(HostileWire, GroupsWithinGroupsDoNotOverflowTheStack) {
  std::string bytes;
  for (int i = 0; i < 100000; ++i) AppendVarint((500U << 3) | 3, bytes);
  EXPECT_EQ(BadFieldOf(bytes), "AttendRequest");
}

TEST(HostileWire, PayloadBeforeMetadataGivesTheSame) {
  v1::AttendRequest request = SmallRequest();
  std::string reversed;
  for (const auto& [number, tensor] :
       {std::pair(Numbers::kVFieldNumber, request.v()),
        std::pair(Numbers::kKFieldNumber, request.k()),
        std::pair(Numbers::kQFieldNumber, request.q())}) {
    v1::Tensor metadata = tensor;
    metadata.clear_data();
    reversed += Delimited(
        number, Delimited(v1::Tensor::kDataFieldNumber, tensor.data()) +
                    metadata.SerializeAsString());
  }
  reversed += Delimited(Numbers::kRequestIdFieldNumber, "late");
  const auto call = Decode(reversed, kRoomy, 3);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(BytesOf(call->args.q), request.q().data());
  EXPECT_EQ(BytesOf(call->args.k), request.k().data());
  EXPECT_EQ(DimsOf(call->args.v.shape), (std::vector<int64_t>{1, 1, 3, 1}));
  EXPECT_EQ(call->request_id, "late");
}

TEST(HostileWire, OfTwoPayloadsTheLastCounts) {
  v1::AttendRequest request = SmallRequest();
  v1::AttendRequest older;
  older.mutable_q()->set_data("older and longer than the one that counts");
  const auto call =
      Decode(older.SerializeAsString() + request.SerializeAsString());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(BytesOf(call->args.q), request.q().data());
  EXPECT_EQ(call->payload_bytes, (8 + 6 + 3) * 4);
}

TEST(HostileWire, TextThatIsNoUtf8IsMalformed) {
  // The generated classes refuse to write it.
  const std::string bytes = SmallRequest().SerializeAsString() +
                            Delimited(Numbers::kKernelFieldNumber, "\xff");
  const absl::Status status = Decode(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Words(status), HasSubstr("UTF-8"));
}

TEST(WireLimits, PayloadsBeyondTheLimitNameBothNumbers) {
  const std::string bytes = SmallRequest().SerializeAsString();
  EXPECT_TRUE(Decode(bytes, 68).ok());
  const absl::Status status = Decode(bytes, 67).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Words(status), AllOf(HasSubstr("68"), HasSubstr("67")));
}

TEST(WireLimits, MetadataHasALimitOfItsOwn) {
  // Two bytes each here, and forty as messages.
  v1::AttendRequest request = SmallRequest();
  for (int i = 0; i < (1 << 19); ++i) request.mutable_spec()->add_biases();
  const absl::Status status = Decode(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Words(status), HasSubstr("1048576"));
}

TEST(WireLimits, TheNumberOfInputsHasALimit) {
  v1::AttendRequest request = SmallRequest();
  for (int i = 0; i < 253; ++i) {
    SetTensor<float>(v1::DATA_TYPE_F32, {0}, {}, request.add_inputs());
  }
  EXPECT_EQ(BadField(request), "");
  request.add_inputs();
  EXPECT_EQ(BadField(request), "inputs");
}

TEST(WireLimits, ASizeBeyondProtobufsIsRefused) {
  for (const int64_t size : {int64_t{-1}, int64_t{1} << 31, INT64_MAX}) {
    PieceStream stream("", 1);
    EXPECT_EQ(DecodeAttendRequest(stream, size, kRoomy).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

// A payload goes to its AlignedBuffer, which is not of operator new, and
// nowhere else.
TEST(Copies, ReceivingTakesNoMemoryBesideThePayloadsOwn) {
  v1::AttendRequest request = SmallRequest();
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 1024, 1024},
                   std::vector<float>(1 << 20, 1), request.mutable_q());
  const std::string bytes = request.SerializeAsString();
  EXPECT_LT(AllocationOfDecoding(bytes), 65536U);
  const auto call = Decode(bytes);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->payload_bytes, (4 << 20) + 36);
}

}  // namespace
}  // namespace attn
