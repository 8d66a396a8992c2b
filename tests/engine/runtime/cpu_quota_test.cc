#include "engine/runtime/cpu_quota.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr char kV2[] = "cgroup v2 cpu.max";
constexpr char kV1[] = "cgroup v1 cpu.cfs_quota_us";
constexpr char kAffinity[] = "affinity mask";

// A file system's root with the few files that tell of CPUs.
class CpuQuotaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* const test =
        ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) /
            (std::string("cpu_quota_") + test->name());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void AllowCpus(const std::string& list) {
    Write("proc/self/status",
          "Name:\tattn\nCpus_allowed:\tffff\nCpus_allowed_list:\t" + list +
              "\nMems_allowed:\t1\n");
  }
  void ExpectQuota(double cores, int threads, const std::string& source) {
    const CpuQuota quota = ReadCpuQuota(root_);
    EXPECT_DOUBLE_EQ(quota.cores, cores);
    EXPECT_EQ(quota.threads, threads);
    EXPECT_EQ(quota.source, source);
  }

  std::filesystem::path root_;
};

TEST_F(CpuQuotaTest, WithoutCgroupsTheAffinityMaskCounts) {
  AllowCpus("0-2,5,8-9");
  ExpectQuota(6, 6, kAffinity);
}

TEST_F(CpuQuotaTest, V2MaxIsNoLimit) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "0::/service\n");
  Write("sys/fs/cgroup/service/cpu.max", "max 100000\n");
  ExpectQuota(16, 16, kAffinity);
}

TEST_F(CpuQuotaTest, V2QuotaOfOneAndAHalfIsTwoThreads) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "0::/service\n");
  Write("sys/fs/cgroup/service/cpu.max", "150000 100000\n");
  ExpectQuota(1.5, 2, kV2);
}

TEST_F(CpuQuotaTest, WholeQuotasAreNotRoundedUp) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "0::/service\n");
  for (const int cores : {1, 3, 7, 10}) {
    Write("sys/fs/cgroup/service/cpu.max",
          std::to_string(cores * 50000) + " 50000\n");
    ExpectQuota(cores, cores, kV2);
  }
}

TEST_F(CpuQuotaTest, AFractionOfACoreStillGetsAThread) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "20000 100000\n");
  ExpectQuota(0.2, 1, kV2);
}

TEST_F(CpuQuotaTest, AQuotaWiderThanTheMaskDoesNotCount) {
  AllowCpus("3,4");
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "800000 100000\n");
  ExpectQuota(2, 2, kAffinity);
}

TEST_F(CpuQuotaTest, TheTightestOfTheGroupAndItsParentsCounts) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "0::/pods/pod7/attn\n");
  Write("sys/fs/cgroup/pods/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/pods/pod7/cpu.max", "250000 100000\n");
  Write("sys/fs/cgroup/pods/pod7/attn/cpu.max", "400000 100000\n");
  Write("sys/fs/cgroup/pods/pod8/cpu.max", "100000 100000\n");
  ExpectQuota(2.5, 3, kV2);
}

TEST_F(CpuQuotaTest, AContainerThatSeesItsGroupAsTheRootFindsItThere) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "0::/machine/container-of-the-host\n");
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  ExpectQuota(3, 3, kV2);
}

TEST_F(CpuQuotaTest, V1QuotaCounts) {
  AllowCpus("0-15");
  Write("proc/self/cgroup",
        "9:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
  const std::string group = "sys/fs/cgroup/cpu,cpuacct/docker/abc/";
  Write(group + "cpu.cfs_quota_us", "350000\n");
  Write(group + "cpu.cfs_period_us", "100000\n");
  ExpectQuota(3.5, 4, kV1);
}

TEST_F(CpuQuotaTest, V1IsFoundUnderTheShortMountAndInParents) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  ExpectQuota(2, 2, kV1);
}

TEST_F(CpuQuotaTest, TheTightestOfTheV1GroupAndItsParentsCounts) {
  AllowCpus("0-15");
  Write("proc/self/cgroup", "1:cpu:/pods/pod7/attn\n0::/\n");
  const auto limit = [this](const std::string& group, const char* quota_us) {
    Write("sys/fs/cgroup/cpu/" + group + "cpu.cfs_quota_us", quota_us);
    Write("sys/fs/cgroup/cpu/" + group + "cpu.cfs_period_us", "100000\n");
  };
  limit("", "-1\n");
  limit("pods/", "600000\n");
  limit("pods/pod7/", "150000\n");
  limit("pods/pod7/attn/", "-1\n");
  ExpectQuota(1.5, 2, kV1);
}

TEST_F(CpuQuotaTest, ACpusetNarrowerThanTheQuotaCounts) {
  AllowCpus("2-3");
  Write("proc/self/cgroup", "0::/service\n");
  Write("sys/fs/cgroup/service/cpu.max", "250000 100000\n");
  ExpectQuota(2, 2, kAffinity);
}

TEST_F(CpuQuotaTest, V1MinusOneIsNoLimit) {
  AllowCpus("0-7");
  Write("proc/self/cgroup", "4:cpu:/\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  ExpectQuota(8, 8, kAffinity);
}

TEST_F(CpuQuotaTest, CpusetAndCpuacctAreNotTheCpuController) {
  AllowCpus("0-7");
  Write("proc/self/cgroup", "4:cpuset:/\n5:cpuacct:/\n");
  for (const std::string controller : {"cpuset", "cpuacct", "cpu"}) {
    Write("sys/fs/cgroup/" + controller + "/cpu.cfs_quota_us", "100000\n");
    Write("sys/fs/cgroup/" + controller + "/cpu.cfs_period_us", "100000\n");
  }
  ExpectQuota(8, 8, kAffinity);
}

TEST_F(CpuQuotaTest, FilesThatMakeNoSenseAreNoLimit) {
  AllowCpus("0-7");
  Write("proc/self/cgroup", "nonsense\n0::/\n4:cpu:/\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  for (const std::string text :
       {"", "\n", "100000", "100000 0", "-5 100000", "1e5 100000",
        "100000 100000 100000", "99999999999999999999 1"}) {
    Write("sys/fs/cgroup/cpu.max", text);
    ExpectQuota(8, 8, kAffinity);
  }
}

TEST_F(CpuQuotaTest, AnEmptyRootLeavesAtLeastOneThread) {
  for (const std::string list : {"none", "5-2", "1-2-3", ""}) {
    AllowCpus(list);
    const CpuQuota quota = ReadCpuQuota(root_);
    EXPECT_GE(quota.threads, 1);
    EXPECT_EQ(quota.source, kAffinity);
  }
}

TEST_F(CpuQuotaTest, ThisMachineHasAQuotaToo) {
  const CpuQuota quota = ReadCpuQuota();
  EXPECT_GT(quota.cores, 0);
  EXPECT_GE(quota.threads, quota.cores);
  EXPECT_LT(quota.threads, quota.cores + 1);
  EXPECT_FALSE(quota.source.empty());
}

}  // namespace
}  // namespace attn
