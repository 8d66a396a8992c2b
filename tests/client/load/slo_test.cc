#include "client/load/slo.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// 1000 answers with latencies of 1 to 1000 ms, all in time.
LoadResult Result() {
  LoadResult result;
  result.offered = 1000;
  result.answered_in_time = 1000;
  for (int64_t i = 1; i <= 1000; ++i) result.latency.Record(i * 1'000'000);
  return result;
}

std::vector<std::string> FailuresUnder(const std::string& slo,
                                       const LoadResult& result = Result()) {
  const Slo parsed = ParseSlo(slo).value();
  return RunFailures(result, &parsed);
}

TEST(Slo, IsSpelledAsItIsGiven) {
  const Slo slo = ParseSlo("p99=20ms,p99.9=0.05,max=1s").value();
  ASSERT_EQ(slo.bounds.size(), 3u);
  EXPECT_DOUBLE_EQ(slo.bounds[1].percentile, 99.9);
  EXPECT_EQ(slo.bounds[1].limit, absl::Milliseconds(50));
  EXPECT_DOUBLE_EQ(slo.bounds[2].percentile, 100);
  EXPECT_EQ(slo.ToString(), "p99=20ms,p99.9=50ms,max=1s");
}

TEST(Slo, EveryPercentileCanBeBounded) {
  for (const char* name : {"p50", "p90", "p95", "p99", "p99.9", "p99.99"}) {
    EXPECT_TRUE(ParseSlo(std::string(name) + "=1s").ok()) << name;
  }
}

TEST(Slo, HoldsUpToItsBound) {
  // Three digits: 990 ms is known within 1/1024.
  EXPECT_THAT(FailuresUnder("p99=991ms,p50=501ms,max=1s"), IsEmpty());
  EXPECT_THAT(FailuresUnder("p99=989ms"),
              ElementsAre(AllOf(StartsWith("p99 is 99"), HasSubstr("989 ms"))));
  EXPECT_THAT(FailuresUnder("p50=400ms,max=900ms"),
              ElementsAre(StartsWith("p50 is"), StartsWith("max is 1.00 s")));
}

TEST(Slo, AllowsNoErrors) {
  LoadResult result = Result();
  result.errors[absl::StatusCode::kUnavailable] = 2;
  EXPECT_THAT(FailuresUnder("max=1s", result),
              ElementsAre(HasSubstr("2 UNAVAILABLE")));
  // Without one, errors count by what they leave unachieved.
  EXPECT_THAT(RunFailures(result, nullptr), IsEmpty());
}

TEST(Slo, ARunMustAchieveWhatIsOffered) {
  LoadResult result = Result();
  result.answered_in_time = 989;
  EXPECT_THAT(RunFailures(result, nullptr), ElementsAre(HasSubstr("98.9 %")));
  EXPECT_THAT(FailuresUnder("max=1s", result),
              ElementsAre(HasSubstr("98.9 %")));
  result.answered_in_time = 990;
  EXPECT_THAT(RunFailures(result, nullptr), IsEmpty());
  EXPECT_THAT(RunFailures(LoadResult(), nullptr),
              ElementsAre(HasSubstr("no request")));
}

class BadSloTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BadSloTest, IsRefusedByName) {
  const auto status = ParseSlo(GetParam()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--slo"));
}

INSTANTIATE_TEST_SUITE_P(Slos, BadSloTest,
                         ::testing::Values("", "p99", "p99=", "p99=x", "p0=1s",
                                           "p100=1s", "p=1s", "p-1=1s",
                                           "p1e1=1s", "99=1s", "mean=1s",
                                           "p99=0", "p99=-1s", "p99=1s,",
                                           "p99=1s,p99=2s", "p99=1s,p99.0=2s",
                                           "p99=1s=2s"));

}  // namespace
}  // namespace attn
