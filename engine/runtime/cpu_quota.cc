#include "engine/runtime/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attn {
namespace {

std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string FirstLine(const std::string& path) {
  const std::vector<std::string> lines = ReadLines(path);
  return lines.empty() ? std::string() : lines.front();
}

std::optional<double> Ratio(const std::string& quota,
                            const std::string& period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) || quota_us <= 0 ||
      !absl::SimpleAtoi(period, &period_us) || period_us <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

// "150000 100000" is 1.5 cores, "max 100000" no limit.
std::optional<double> ReadV2(const std::string& directory) {
  const std::vector<std::string> fields =
      absl::StrSplit(FirstLine(directory + "/cpu.max"), ' ');
  if (fields.size() != 2) return std::nullopt;
  return Ratio(fields[0], fields[1]);
}

// A quota of -1 is no limit.
std::optional<double> ReadV1(const std::string& directory) {
  return Ratio(FirstLine(directory + "/cpu.cfs_quota_us"),
               FirstLine(directory + "/cpu.cfs_period_us"));
}

using Reader = std::optional<double> (*)(const std::string& directory);

// The tightest limit of the group and its parents. A container may see its own
// group as the mount's root while `group` is the host's name of it; folders
// that are not there are no limit.
std::optional<double> Tightest(const std::string& mount, std::string group,
                               Reader read) {
  std::optional<double> tightest;
  for (;;) {
    const std::optional<double> cores = read(mount + group);
    if (cores.has_value() && (!tightest.has_value() || *cores < *tightest)) {
      tightest = cores;
    }
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return tightest;
    group.resize(slash);
  }
}

void Tighten(std::optional<double> cores, const char* source, CpuQuota& quota) {
  if (!cores.has_value() || *cores >= quota.cores) return;
  quota.cores = *cores;
  quota.source = source;
}

// One line of /proc/self/cgroup: "hierarchy:controllers:group".
void ReadGroup(const std::string& root, const std::string& line,
               CpuQuota& quota) {
  const std::vector<std::string> fields =
      absl::StrSplit(line, absl::MaxSplits(':', 2));
  if (fields.size() != 3) return;
  const std::string mounts = root + "/sys/fs/cgroup";
  const std::string& group = fields[2];
  if (fields[0] == "0" && fields[1].empty()) {
    Tighten(Tightest(mounts, group, ReadV2), "cgroup v2 cpu.max", quota);
    return;
  }
  const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
  if (std::find(controllers.begin(), controllers.end(), "cpu") ==
      controllers.end()) {
    return;
  }
  // Distributions mount the hierarchy by all its controllers, or by one.
  for (const std::string& name : {fields[1], std::string("cpu")}) {
    Tighten(Tightest(absl::StrCat(mounts, "/", name), group, ReadV1),
            "cgroup v1 cpu.cfs_quota_us", quota);
  }
}

// "0-2,5" is 4; 0 if it is not a list.
int CountCpus(const std::string& list) {
  int count = 0;
  for (const std::string& range :
       std::vector<std::string>(absl::StrSplit(list, ','))) {
    const std::vector<std::string> ends = absl::StrSplit(range, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || last < first) {
      return 0;
    }
    count += last - first + 1;
  }
  return count;
}

int MachineCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  // More cores than the fixed-size set can name.
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The affinity mask, which a cpuset narrows too. From /proc, so that it follows
// `root`; the system call answers where /proc does not.
int AllowedCpus(const std::string& root) {
  for (const std::string& line : ReadLines(root + "/proc/self/status")) {
    absl::string_view list = line;
    if (!absl::ConsumePrefix(&list, "Cpus_allowed_list:")) continue;
    const int count = CountCpus(std::string(absl::StripAsciiWhitespace(list)));
    if (count > 0) return count;
  }
  return std::max(1, MachineCpus());
}

}  // namespace

CpuQuota ReadCpuQuota(const std::string& root) {
  CpuQuota quota;
  quota.cores = AllowedCpus(root);
  quota.source = "affinity mask";
  for (const std::string& line : ReadLines(root + "/proc/self/cgroup")) {
    ReadGroup(root, line, quota);
  }
  quota.threads = std::max(1, static_cast<int>(std::ceil(quota.cores)));
  return quota;
}

}  // namespace attn
