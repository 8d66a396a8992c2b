#include "server/rpc/message_size.h"

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/refusal.h"
#include "server/rpc/reply_status.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MessageSize, TheLimitItselfFits) {
  EXPECT_TRUE(CheckMessageSize("a request", 100, 100).ok());
}

TEST(MessageSize, BeyondItBothNumbersAndTheFlagAreNamed) {
  const absl::Status status = CheckMessageSize("a request", 101, 100);
  EXPECT_EQ(RefusalOf(status), Refusal::kTooLarge);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("101"), HasSubstr("--max-message-bytes=100")));
}

TEST(MessageSize, MalformedBytesAreABadRequest) {
  const absl::Status status = MalformedMessage("PlanRequest");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "request");
}

// Metadata can cost far more as a message than on the wire.
TEST(MessageSize, ARequestWithoutPayloadsIsSmall) {
  EXPECT_TRUE(CheckMetadataSize(size_t{1} << 20).ok());
  EXPECT_EQ(CheckMetadataSize((size_t{1} << 20) + 1).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ReplyStatus, ARefusalWorthARetryCarriesRetryInfo) {
  const grpc::Status busy = ToReplyStatus(Refuse(Refusal::kQueueFull, "busy"));
  EXPECT_EQ(busy.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(busy.error_details(), HasSubstr("google.rpc.RetryInfo"));
  const grpc::Status large = ToReplyStatus(Refuse(Refusal::kTooLarge, "large"));
  EXPECT_EQ(large.error_details().find("RetryInfo"), std::string::npos);
}

TEST(ReplyStatus, AFieldErrorCarriesItsField) {
  const grpc::Status bad = ToReplyStatus(FieldError("q.shape", "1", "2"));
  EXPECT_THAT(bad.error_details(), HasSubstr("google.rpc.BadRequest"));
  EXPECT_THAT(bad.error_details(), HasSubstr("q.shape"));
}

}  // namespace
}  // namespace attn
