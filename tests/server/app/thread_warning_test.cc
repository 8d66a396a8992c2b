#include "server/app/thread_warning.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const CpuQuota kOneAndAHalf = {
    .cores = 1.5, .threads = 2, .source = "cgroup v2 cpu.max"};

TEST(ThreadWarning, TheQuotasOwnNumberIsRight) {
  EXPECT_THAT(ThreadWarning(0, kOneAndAHalf), IsEmpty());
  EXPECT_THAT(ThreadWarning(2, kOneAndAHalf), IsEmpty());
}

TEST(ThreadWarning, MoreThreadsThanCoresAreToldWithBothNumbersAndTheFlag) {
  EXPECT_THAT(ThreadWarning(40, kOneAndAHalf),
              AllOf(HasSubstr("--compute-threads=40"), HasSubstr("1.5 cores"),
                    HasSubstr("cgroup v2 cpu.max"), HasSubstr("0 takes 2"),
                    HasSubstr("wait")));
}

TEST(ThreadWarning, FewerThreadsThanCoresAreToldToo) {
  EXPECT_THAT(ThreadWarning(1, kOneAndAHalf), HasSubstr("idle"));
}

}  // namespace
}  // namespace attn
