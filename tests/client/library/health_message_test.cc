#include "client/library/health_message.h"

#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

// Bytes by the protobuf encoding: field 1, length 3; field 1, varint.
TEST(HealthMessageTest, EncodesTheService) {
  EXPECT_EQ(EncodeHealthRequest(""), "");
  EXPECT_EQ(EncodeHealthRequest("abc"), std::string("\x0A\x03") + "abc");
}

TEST(HealthMessageTest, DecodesTheState) {
  EXPECT_EQ(*DecodeHealthResponse(std::string("\x08\x01", 2)),
            HealthState::kServing);
  EXPECT_EQ(*DecodeHealthResponse(std::string("\x08\x02", 2)),
            HealthState::kNotServing);
  EXPECT_EQ(*DecodeHealthResponse(""), HealthState::kUnknown);
}

TEST(HealthMessageTest, PassesOverFieldsThatItDoesNotKnow) {
  EXPECT_EQ(*DecodeHealthResponse(std::string("\x12\x01x\x08\x01", 5)),
            HealthState::kServing);
}

TEST(HealthMessageTest, RefusesAMalformedResponse) {
  EXPECT_FALSE(DecodeHealthResponse(std::string("\x08", 1)).ok());
  EXPECT_FALSE(DecodeHealthResponse(std::string("\x12\x7F", 2)).ok());
}

}  // namespace
}  // namespace attn
