#include "server/metrics/process_stats.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

// A file system of a test's own.
class ProcessStatsTest : public ::testing::Test {
 protected:
  ProcessStatsTest()
      : root_(fs::path(::testing::TempDir()) /
              ("attn_process_stats_" + std::to_string(getpid()))) {}
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& content) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  ProcessStats Read() const { return ReadProcessStats(root_.string()); }
  void ExpectThrottling(double periods, double throttled,
                        double seconds) const {
    const ProcessStats stats = Read();
    EXPECT_EQ(stats.quota_periods, periods);
    EXPECT_EQ(stats.throttled_periods, throttled);
    EXPECT_DOUBLE_EQ(stats.throttled_seconds, seconds);
  }

  const fs::path root_;
};

TEST_F(ProcessStatsTest, ReadsTheFieldsBehindAHostileCommandName) {
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  Write("proc/self/stat",
        "7 (a) b (c) S 1 1 1 0 -1 4 0 0 0 0 300 200 0 0 20 0 11 0 5000 4096 "
        "3 0\n");
  Write("proc/stat", "cpu 1 2 3\nbtime 1000\n");
  Write("proc/self/limits", "Max open files            1024  4096  files\n");
  Write("proc/self/fd/0", "");
  Write("proc/self/fd/1", "");
  const ProcessStats stats = Read();
  EXPECT_DOUBLE_EQ(stats.cpu_seconds, 500 / ticks);
  EXPECT_DOUBLE_EQ(stats.start_time_seconds, 1000 + 5000 / ticks);
  EXPECT_EQ(stats.threads, 11);
  EXPECT_EQ(stats.virtual_bytes, 4096);
  EXPECT_EQ(stats.resident_bytes,
            3 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(stats.max_fds, 1024);
  EXPECT_EQ(stats.open_fds, 2);
}

TEST_F(ProcessStatsTest, ReadsThrottlingOfCgroupVersion2) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/cpu.stat",
        "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec "
        "2500000\nnr_bursts 0\n");
  ExpectThrottling(9, 3, 2.5);
}

TEST_F(ProcessStatsTest, ReadsThrottlingOfCgroupVersion1) {
  Write("proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/a\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
        "nr_periods 6\nnr_throttled 4\nthrottled_time 1500000000\n");
  ExpectThrottling(6, 4, 1.5);
}

TEST_F(ProcessStatsTest, ReadsTheGroupWhoseQuotaHolds) {
  Write("proc/self/cgroup", "0::/pods/pod7/attn\n");
  const std::string none = "usage_usec 5\nnr_periods 0\nnr_throttled 0\n";
  Write("sys/fs/cgroup/pods/pod7/attn/cpu.stat", none);
  Write("sys/fs/cgroup/pods/pod7/cpu.stat",
        "nr_periods 8\nnr_throttled 2\nthrottled_usec 500000\n");
  Write("sys/fs/cgroup/pods/cpu.stat",
        "nr_periods 80\nnr_throttled 20\nthrottled_usec 1\n");
  ExpectThrottling(8, 2, 0.5);
}

TEST_F(ProcessStatsTest, FallsBackToTheRootOfTheMount) {
  Write("proc/self/cgroup", "0::/outside/the/container\n");
  Write("sys/fs/cgroup/cpu.stat",
        "nr_periods 1\nnr_throttled 1\nthrottled_usec 1000000\n");
  ExpectThrottling(1, 1, 1);
}

TEST_F(ProcessStatsTest, AGroupWithoutAQuotaIsNotThrottled) {
  Write("proc/self/cgroup", "1:cpu:/\n0::/\n");
  Write("sys/fs/cgroup/cpu/cpu.stat",
        "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
  ExpectThrottling(0, 0, 0);
}

TEST_F(ProcessStatsTest, GivesZerosWhereNothingCanBeRead) {
  const ProcessStats stats = Read();
  EXPECT_EQ(stats.cpu_seconds, 0);
  EXPECT_EQ(stats.throttled_seconds, 0);
}

TEST(ProcessStats, KnowsThisProcess) {
  const ProcessStats stats = ReadProcessStats();
  EXPECT_GE(stats.threads, 1);
  EXPECT_GT(stats.resident_bytes, 0);
  EXPECT_GT(stats.start_time_seconds, 1e9);
  EXPECT_GE(stats.open_fds, 3);
}

}  // namespace
}  // namespace attn
