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
  // Time that the cgroup's CPU quota held its threads back.
  double throttled_seconds = 0;
};

// `root` is the file system's root; tests give their own tree.
ProcessStats ReadProcessStats(const std::string& root = "/");

}  // namespace attn
