#include "server/app/flags.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(NormalizeArguments, DashesOfNamesBecomeUnderscores) {
  const CommandLine line = NormalizeArguments(
      {"attn-server", "--grpc-address=unix:/a-b", "--log_format", "json"});
  EXPECT_THAT(line.arguments,
              ElementsAre("attn-server", "--grpc_address=unix:/a-b",
                          "--log_format", "json"));
  EXPECT_THAT(line.names, UnorderedElementsAre("grpc_address", "log_format"));
}

TEST(NormalizeArguments, OneDashIsAsGoodAsTwo) {
  EXPECT_THAT(NormalizeArguments({"p", "-drain-delay=5s"}).arguments,
              ElementsAre("p", "--drain_delay=5s"));
}

TEST(NormalizeArguments, ANegativeNumberIsAValue) {
  EXPECT_THAT(NormalizeArguments({"p", "--x", "-1"}).arguments,
              ElementsAre("p", "--x", "-1"));
}

TEST(NormalizeArguments, NothingIsTouchedAfterTheDoubleDash) {
  const CommandLine line = NormalizeArguments({"p", "--", "--a-b"});
  EXPECT_THAT(line.arguments, ElementsAre("p", "--", "--a-b"));
  EXPECT_THAT(line.names, IsEmpty());
}

TEST(NormalizeArguments, ANegatedFlagIsKnownByItsName) {
  EXPECT_THAT(NormalizeArguments({"p", "--nolog-requests"}).names,
              ElementsAre("log_requests"));
}

}  // namespace
}  // namespace attn
