// The decoder against the parser that protoc generates: same bytes, same
// tensors; and both refuse the same malformed bytes.
#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "proto/codec/spec_codec.h"
#include "tests/proto/codec/codec_fixture.h"
#include "tests/proto/codec/random_request.h"

namespace attn {
namespace {

// The generated parser prints each string that is not UTF-8.
class QuietParser {
 public:
  QuietParser() : handler_(google::protobuf::SetLogHandler(nullptr)) {}
  ~QuietParser() { google::protobuf::SetLogHandler(handler_); }
  QuietParser(const QuietParser&) = delete;
  QuietParser& operator=(const QuietParser&) = delete;

 private:
  google::protobuf::LogHandler* handler_;
};

void ExpectSameTensor(const TensorView& view, const v1::Tensor& tensor) {
  std::vector<int64_t> dims(tensor.shape().begin(), tensor.shape().end());
  // Row-major strides of the wire's order.
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  if (tensor.layout() == v1::TENSOR_LAYOUT_BSHD) {
    std::swap(dims[1], dims[2]);
    std::swap(strides[1], strides[2]);
  }
  EXPECT_EQ(static_cast<int>(view.dtype), static_cast<int>(tensor.dtype()));
  EXPECT_EQ(DimsOf(view.shape), dims);
  EXPECT_EQ(std::vector<int64_t>(view.strides.begin(), view.strides.end()),
            strides);
  EXPECT_EQ(BytesOf(view), tensor.data());
}

void ExpectSame(const AttendCall& call, const v1::AttendRequest& request) {
  ExpectSameTensor(call.args.q, request.q());
  ExpectSameTensor(call.args.k, request.k());
  ExpectSameTensor(call.args.v, request.v());
  ASSERT_EQ(call.args.inputs.size(),
            static_cast<size_t>(request.inputs_size()));
  for (int i = 0; i < request.inputs_size(); ++i) {
    ExpectSameTensor(call.args.inputs[static_cast<size_t>(i)],
                     request.inputs(i));
  }
  EXPECT_EQ(call.spec, *DecodeSpec(request.spec()));
  EXPECT_TRUE(std::equal(call.args.q_lengths.begin(), call.args.q_lengths.end(),
                         request.q_lengths().begin(),
                         request.q_lengths().end()));
  EXPECT_TRUE(
      std::equal(call.args.kv_lengths.begin(), call.args.kv_lengths.end(),
                 request.kv_lengths().begin(), request.kv_lengths().end()));
  EXPECT_EQ(call.kernel, request.kernel());
  EXPECT_EQ(call.request_id, request.request_id());
}

// Leaves `earlier` so that it makes a legal tensor when `later` follows it.
void Yield(const v1::Tensor& later, v1::Tensor* earlier) {
  earlier->clear_shape();
  // An empty payload is not written, so it replaces none.
  if (later.data().empty()) earlier->clear_data();
}

class AttendDifferential : public testing::TestWithParam<size_t> {};

TEST_P(AttendDifferential, RandomRequestsGiveWhatTheGeneratedParserGives) {
  RandomRequest requests(1);
  for (int i = 0; i < 300; ++i) {
    const v1::AttendRequest request = requests.Draw();
    const auto call = Decode(request.SerializeAsString(), kRoomy, GetParam());
    ASSERT_TRUE(call.ok()) << call.status() << request.DebugString();
    ExpectSame(*call, request);
    ASSERT_FALSE(HasFailure()) << request.DebugString();
  }
}

TEST_P(AttendDifferential, MergedMessagesGiveWhatTheGeneratedParserGives) {
  RandomRequest requests(2);
  for (int i = 0; i < 300; ++i) {
    // Fields come twice: the last payload counts, shapes and specs merge.
    v1::AttendRequest first = requests.Draw();
    const v1::AttendRequest second = requests.Draw();
    Yield(second.q(), first.mutable_q());
    Yield(second.k(), first.mutable_k());
    Yield(second.v(), first.mutable_v());
    const std::string bytes =
        first.SerializeAsString() + second.SerializeAsString();
    v1::AttendRequest merged;
    ASSERT_TRUE(merged.ParseFromString(bytes));
    const auto call = Decode(bytes, kRoomy, GetParam());
    ASSERT_TRUE(call.ok()) << call.status() << merged.DebugString();
    ExpectSame(*call, merged);
    ASSERT_FALSE(HasFailure()) << merged.DebugString();
  }
}

INSTANTIATE_TEST_SUITE_P(PieceSizes, AttendDifferential,
                         testing::Values(1, 3, 64, 100000),
                         [](const auto& size) {
                           return "Of" + std::to_string(size.param);
                         });

// What the decoder makes of bytes, against the generated parser.
void ExpectAgreement(const std::string& bytes) {
  v1::AttendRequest parsed;
  const bool well_formed = parsed.ParseFromString(bytes);
  const auto call = Decode(bytes, kRoomy, 7);
  if (call.ok()) {
    ASSERT_TRUE(well_formed) << parsed.DebugString();
    ExpectSame(*call, parsed);
    return;
  }
  const bool called_malformed =
      std::string(call.status().message()).find("malformed") !=
      std::string::npos;
  EXPECT_FALSE(well_formed && called_malformed) << call.status();
  EXPECT_TRUE(FieldOf(call.status()).has_value()) << call.status();
}

TEST(AttendDecoder, AgreesOnBytesThatWereChangedAtRandom) {
  const QuietParser quiet;
  RandomRequest requests(3);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = requests.Draw().SerializeAsString();
    for (int flips = 1 + requests.Below(3); flips > 0; --flips) {
      const int at = requests.Below(static_cast<int>(bytes.size()));
      bytes[static_cast<size_t>(at)] = static_cast<char>(requests.Below(256));
    }
    ExpectAgreement(bytes);
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << i;
  }
}

TEST(AttendDecoder, EveryTruncationIsAnErrorOrTheShorterMessage) {
  const std::string bytes = RandomRequest(4).Draw().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectAgreement(bytes.substr(0, size));
  }
}

TEST(AttendDecoder, AStreamThatEndsEarlyIsAnError) {
  const std::string bytes = SmallRequest().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    PieceStream stream(bytes.substr(0, size), 5);
    const auto call =
        DecodeAttendRequest(stream, static_cast<int64_t>(bytes.size()), kRoomy);
    EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(AttendDecoder, ReadsNoFurtherThanTheMessage) {
  const std::string bytes = SmallRequest().SerializeAsString();
  PieceStream stream(bytes + "the next message", 1000);
  ASSERT_TRUE(
      DecodeAttendRequest(stream, static_cast<int64_t>(bytes.size()), kRoomy)
          .ok());
  EXPECT_EQ(stream.ByteCount(), static_cast<int64_t>(bytes.size()));
}

}  // namespace
}  // namespace attn
