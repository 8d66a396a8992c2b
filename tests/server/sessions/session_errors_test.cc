#include "server/sessions/session_errors.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

struct ErrorRow {
  absl::Status status;
  absl::StatusCode code;
  const char* reason;
  bool worth_retry;
};

// The table at the head of session.proto.
TEST(SessionErrors, HaveTheCodeReasonAndRetryOfTheSchema) {
  const ErrorRow rows[] = {
      {SessionNotHere("a"), absl::StatusCode::kNotFound, "SESSION_NOT_HERE",
       false},
      {SessionExpired("a"), absl::StatusCode::kNotFound, "SESSION_EXPIRED",
       false},
      {SessionBusy("a"), absl::StatusCode::kUnavailable, "SESSION_BUSY", true},
      {SessionWrongEpoch(1, 2), absl::StatusCode::kFailedPrecondition,
       "SESSION_WRONG_EPOCH", false},
      {SessionStepGap(1, 2), absl::StatusCode::kFailedPrecondition,
       "SESSION_STEP_GAP", false},
      {SessionStepReplaced(1), absl::StatusCode::kFailedPrecondition,
       "SESSION_STEP_REPLACED", false},
      {SessionFull(0, 1, 2, 2), absl::StatusCode::kResourceExhausted,
       "SESSION_FULL", false},
      {KvMemory(KvShortage::kPasses, "m"), absl::StatusCode::kResourceExhausted,
       "KV_MEMORY", true},
      {KvMemory(KvShortage::kStays, "m"), absl::StatusCode::kResourceExhausted,
       "KV_MEMORY", false},
  };
  for (const ErrorRow& row : rows) {
    EXPECT_EQ(row.status.code(), row.code) << row.status;
    EXPECT_EQ(SessionReasonOf(row.status), row.reason);
    EXPECT_EQ(SessionRetryDelay(row.status).has_value(), row.worth_retry);
    EXPECT_GT(SessionRetryDelay(row.status).value_or(absl::Seconds(1)),
              absl::ZeroDuration());
    EXPECT_THAT(Message(row.status), Not(HasSubstr("\n")));
  }
}

TEST(SessionErrors, OthersHaveNoReason) {
  EXPECT_FALSE(SessionReasonOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(SessionReasonOf(absl::NotFoundError("x")).has_value());
  EXPECT_FALSE(SessionRetryDelay(absl::UnavailableError("x")).has_value());
}

TEST(SessionErrors, SayWhatCameAndWhatWasExpected) {
  EXPECT_THAT(Message(SessionWrongEpoch(7, 8)),
              HasSubstr("epoch: got 7, expected 8"));
  EXPECT_THAT(Message(SessionStepGap(7, 5)),
              HasSubstr("step: got 7, expected 5"));
  EXPECT_THAT(Message(SessionStepReplaced(41)),
              AllOf(HasSubstr("got 41"), HasSubstr("step 42")));
  EXPECT_THAT(Message(SessionFull(3, 100, 29, 128)),
              AllOf(HasSubstr("max_tokens: got 29"), HasSubstr("layer 3"),
                    HasSubstr("has 100"), HasSubstr("at most 128")));
}

// There is no last step before the first.
TEST(SessionErrors, TheFirstStepHasNoneBeforeIt) {
  EXPECT_THAT(Message(SessionStepGap(7, 5)), HasSubstr("again"));
  EXPECT_THAT(Message(SessionStepGap(7, 0)), Not(HasSubstr("again")));
}

TEST(SessionErrors, AnIdOfAnyBytesIsOneShortPrintableLine) {
  const absl::Status status =
      SessionNotHere(std::string("a\nb\"\xff") + std::string(100000, 'x'));
  EXPECT_LT(status.message().size(), 250U);
  for (const char c : status.message()) {
    EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
  }
}

}  // namespace
}  // namespace attn
