// How many cores this process may really use.
#pragma once

#include <string>

namespace attn {

struct CpuQuota {
  // min(cpuset, cgroup quota), e.g. 1.5.
  double cores = 1;
  // ceil(cores): the compute threads to start.
  int threads = 1;
  // "cgroup v2 cpu.max", "cgroup v1 cpu.cfs_quota_us", "affinity mask".
  std::string source;
};

// Reads the affinity mask and the cgroup (v2 cpu.max, v1 cfs quota) of this
// process. `root` is the file system's root; tests give their own tree.
CpuQuota ReadCpuQuota(const std::string& root = "/");

}  // namespace attn
