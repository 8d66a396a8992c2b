#include "server/metrics/process_stats.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace attn {
namespace {

namespace fs = std::filesystem;

// Positions in /proc/self/stat behind the command's closing parenthesis
// (proc(5) numbers them from 3).
constexpr size_t kUserTime = 14 - 3;
constexpr size_t kSystemTime = 15 - 3;
constexpr size_t kThreads = 20 - 3;
constexpr size_t kStartTime = 22 - 3;
constexpr size_t kVirtualSize = 23 - 3;
constexpr size_t kResidentPages = 24 - 3;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// The number that follows `key` at the start of a line.
double ValueOf(const std::string& content, const std::string& key) {
  std::istringstream lines(content);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    double value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return 0;
}

std::vector<double> StatFields(const std::string& stat) {
  // The command may hold spaces and parentheses.
  const size_t end = stat.rfind(')');
  std::vector<double> fields;
  if (end == std::string::npos) return fields;
  std::istringstream words(stat.substr(end + 1));
  std::string state;
  words >> state;
  fields.push_back(0);
  double value = 0;
  while (words >> value) fields.push_back(value);
  return fields;
}

double CountEntries(const fs::path& folder) {
  std::error_code error;
  double count = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

double MaxOpenFiles(const std::string& limits) {
  const std::string key = "Max open files";
  const size_t at = limits.find(key);
  if (at == std::string::npos) return 0;
  std::istringstream words(limits.substr(at + key.size()));
  double value = 0;
  words >> value;
  return value;
}

bool IsCpuController(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

// Folders that may hold the cpu.stat of this process's group and of its
// parents, the nearest first. A container may see its group as the root of the
// mount while /proc names it as the host does.
std::vector<fs::path> CgroupFolders(const fs::path& root) {
  std::vector<fs::path> folders;
  const fs::path mount = root / "sys/fs/cgroup";
  std::istringstream lines(ReadFile(root / "proc/self/cgroup"));
  std::string line;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !IsCpuController(controllers)) continue;
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (; !group.empty(); group = group.parent_path()) {
      folders.push_back(mount / controllers / group);
    }
  }
  folders.push_back(mount);
  folders.push_back(mount / "cpu,cpuacct");
  folders.push_back(mount / "cpu");
  return folders;
}

// A group without a quota counts no periods.
void ReadThrottling(const fs::path& root, ProcessStats& stats) {
  for (const fs::path& folder : CgroupFolders(root)) {
    const std::string content = ReadFile(folder / "cpu.stat");
    stats.quota_periods = ValueOf(content, "nr_periods");
    if (stats.quota_periods <= 0) continue;
    stats.throttled_periods = ValueOf(content, "nr_throttled");
    // cgroup v2 counts microseconds, v1 nanoseconds.
    stats.throttled_seconds = ValueOf(content, "throttled_usec") * 1e-6 +
                              ValueOf(content, "throttled_time") * 1e-9;
    return;
  }
}

}  // namespace

ProcessStats ReadProcessStats(const std::string& root) {
  const fs::path base(root);
  ProcessStats stats;
  const std::vector<double> fields =
      StatFields(ReadFile(base / "proc/self/stat"));
  if (fields.size() > kResidentPages) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    stats.cpu_seconds = (fields[kUserTime] + fields[kSystemTime]) / ticks;
    stats.threads = fields[kThreads];
    stats.start_time_seconds = ValueOf(ReadFile(base / "proc/stat"), "btime") +
                               fields[kStartTime] / ticks;
    stats.virtual_bytes = fields[kVirtualSize];
    stats.resident_bytes =
        fields[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  stats.open_fds = CountEntries(base / "proc/self/fd");
  stats.max_fds = MaxOpenFiles(ReadFile(base / "proc/self/limits"));
  ReadThrottling(base, stats);
  return stats;
}

}  // namespace attn
