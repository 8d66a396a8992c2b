#include "server/http/gateway_metadata.h"

#include <chrono>
#include <string>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using std::chrono::system_clock;
using ::testing::HasSubstr;

absl::Status PassOn(const HttpRequest& request) {
  grpc::ClientContext context;
  return PassOnMetadata(request, context);
}

HttpRequest WithTimeout(const std::string& text) {
  return {.headers = {{"grpc-timeout", text}}};
}

// The units of gRPC over HTTP/2: the deadline lies between two readings of the
// clock that the timeout was added to.
TEST(GatewayMetadataTest, ATimeoutIsADeadlineFromNowOn) {
  struct Case {
    const char* text;
    std::chrono::nanoseconds timeout;
  };
  for (const Case& c :
       {Case{"2H", std::chrono::hours(2)}, Case{"3M", std::chrono::minutes(3)},
        Case{"4S", std::chrono::seconds(4)},
        Case{"500m", std::chrono::milliseconds(500)},
        Case{"99999999u", std::chrono::microseconds(99999999)},
        Case{"1n", std::chrono::nanoseconds(1)},
        Case{"0S", std::chrono::nanoseconds(0)}}) {
    grpc::ClientContext context;
    const auto before = system_clock::now();
    ASSERT_TRUE(PassOnMetadata(WithTimeout(c.text), context).ok()) << c.text;
    const auto after = system_clock::now();
    EXPECT_GE(context.deadline(), before + c.timeout) << c.text;
    EXPECT_LE(context.deadline(), after + c.timeout) << c.text;
  }
}

TEST(GatewayMetadataTest, WithoutATimeoutThereIsNoDeadline) {
  grpc::ClientContext context;
  const auto none = context.deadline();
  ASSERT_TRUE(PassOnMetadata({}, context).ok());
  EXPECT_EQ(context.deadline(), none);
}

// More hours than a 64-bit count of nanoseconds holds.
TEST(GatewayMetadataTest, ATimeoutBeyondEveryClockIsNone) {
  grpc::ClientContext context;
  const auto none = context.deadline();
  ASSERT_TRUE(PassOnMetadata(WithTimeout("99999999H"), context).ok());
  EXPECT_EQ(context.deadline(), none);
}

TEST(GatewayMetadataTest, WhatIsNoTimeoutIsNamed) {
  for (const char* text : {"5", "m", "-1S", "+1S", "1.5S", "1 S", " 1S", "1s",
                           "123456789S", "soon", "0x1S"}) {
    const absl::Status status = PassOn(WithTimeout(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(FieldOf(status), "Grpc-Timeout") << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

// gRPC's own library ends the process over them.
TEST(GatewayMetadataTest, HeadersThatGrpcCannotPassOnAreRefused) {
  for (const char* name : {"authorization", "traceparent"}) {
    for (const char* value :
         {"Bearer \xFF", "Bearer \xC3\xA9", "a\tb", "a\x01", "a\x7F"}) {
      const absl::Status status = PassOn({.headers = {{name, value}}});
      EXPECT_EQ(FieldOf(status), name);
      EXPECT_EQ(status.message().find(value), absl::string_view::npos);
    }
    EXPECT_TRUE(PassOn({.headers = {{name, "Bearer ~ !"}}}).ok());
  }
}

}  // namespace
}  // namespace attn
