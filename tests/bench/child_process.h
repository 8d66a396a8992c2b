// A program that runs beside the benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace attn {

// Not thread-safe.
class ChildProcess {
 public:
  // Starts it with its output and its log thrown away. Throws if it cannot.
  explicit ChildProcess(const std::vector<std::string>& command);
  // Asks it to stop (SIGTERM) and waits for it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running() const;

 private:
  pid_t pid_ = 0;
};

// "127.0.0.1:<port>" with a port that was free a moment ago.
std::string FreeLoopbackAddress();

}  // namespace attn
