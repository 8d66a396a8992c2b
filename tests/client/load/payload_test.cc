#include "client/load/payload.h"

#include <cmath>
#include <string>

#include "attention/v1/attention.pb.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

CallProfile Profile(const char* shape) {
  return {.shape = ParseCallShape(shape).value(), .causal = true, .seed = 5};
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::string BytesOf(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.byte_count()};
}

TEST(Payload, RequestIsWhatProtobufReadsOfTheTensors) {
  const auto payloads = MakePayloads(Profile("2,4,2,3,5,8,6"), 1).value();
  v1::AttendRequest request;
  ASSERT_TRUE(request.ParseFromString(BytesOf(payloads[0].request)));
  EXPECT_EQ(request.q().data(), BytesOf(payloads[0].q));
  EXPECT_EQ(request.k().data(), BytesOf(payloads[0].k));
  EXPECT_EQ(request.v().data(), BytesOf(payloads[0].v));
  EXPECT_EQ(request.v().shape(3), 6);
  ASSERT_EQ(request.spec().masks_size(), 1);
  EXPECT_TRUE(request.spec().masks(0).has_causal());
}

TEST(Payload, EachIsDifferentAndTheSeedDecidesThemAll) {
  const CallProfile profile = Profile("1,1,1,4,4,8");
  const auto first = MakePayloads(profile, 3).value();
  const auto again = MakePayloads(profile, 3).value();
  CallProfile other = profile;
  other.seed = 6;
  const auto different = MakePayloads(other, 3).value();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(BytesOf(first[i].request), BytesOf(again[i].request));
    EXPECT_NE(BytesOf(first[i].request), BytesOf(different[i].request));
    EXPECT_NE(BytesOf(first[i].request), BytesOf(first[(i + 1) % 3].request));
  }
}

TEST(Payload, ValuesAreStandardNormal) {
  const auto payloads = MakePayloads(Profile("1,1,1,500,1,100"), 1).value();
  const HostTensor& q = payloads[0].q;
  const auto count = static_cast<double>(q.element_count());
  double sum = 0;
  double squares = 0;
  for (const float value : q.values<float>()) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
}

TEST(Payload, ShapeThatFitsNoMemoryAddressIsRefused) {
  const auto made =
      MakePayloads(Profile("4000000000,4000000000,1,4000000000,1,1"), 1);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attn
