// attn-server as a process of its own, and what the kernel knows of its memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace attn {

// Thread-compatible.
class ServerProcess {
 public:
  // Serves when this returns; dies if it does not. Flags for its address, no
  // metrics and no lines for requests come before `flags`. `environment` is
  // "NAME=value".
  explicit ServerProcess(const std::vector<std::string>& flags = {},
                         const std::vector<std::string>& environment = {});
  // Kills it, if Stop() was not called.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }
  // SIGTERM, then waits. The exit code, or -1 for a death by signal.
  int Stop();
  // Stops it in its tracks, as a machine that hangs: SIGSTOP, then SIGCONT.
  void Freeze() const;
  void Thaw() const;

  int64_t MinorFaults() const;
  int64_t ResidentBytes() const;
  // Since the start or the last ForgetPeak().
  int64_t PeakResidentBytes() const;
  void ForgetPeak() const;

 private:
  std::string ReadAddress();

  pid_t pid_ = 0;
  FILE* output_ = nullptr;
  std::string address_;
};

}  // namespace attn
