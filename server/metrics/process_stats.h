// What the kernel knows of this process: the source of the process_* metrics.
#pragma once

#include <string>

namespace attn {

// Zero where the file could not be read. A value.
struct ProcessStats {
  double cpu_seconds = 0;
  // Since the epoch.
  double start_time_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double threads = 0;
  double open_fds = 0;
  double max_fds = 0;
  // Periods of the cgroup's CPU quota in which a thread wanted to run, those in
  // which the quota ran out, and the time that it then held threads back. Of
  // the nearest group that has a quota, this process's own or a parent.
  double quota_periods = 0;
  double throttled_periods = 0;
  double throttled_seconds = 0;
};

// `root` is the file system's root; tests give their own tree.
ProcessStats ReadProcessStats(const std::string& root = "/");

}  // namespace attn
