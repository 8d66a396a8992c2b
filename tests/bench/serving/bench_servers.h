// The servers that the serving benchmark calls, each a process of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/bench/child_process.h"

namespace attn {

// What the rows are measured with.
struct ServingSetting {
  std::string attn_server;
  std::string echo_server;
  // Root folder that holds the peer; empty: there is none.
  std::string peers_root;
  // Rounds, in each of which every series is measured once.
  int rounds = 9;
  // Length of one measurement.
  double seconds = 0.4;
};

// Stops it when destroyed. Not thread-safe.
struct ServingProcess {
  std::string address;
  // "unix:/path"; empty if it has none.
  std::string unix_address;
  // "host:port"; empty if it has none.
  std::string metrics_address;
  std::unique_ptr<ChildProcess> process;
  // From the start of the process to SERVING.
  double start_milliseconds = 0;
};

// These wait for SERVING and throw if it does not come.

// With its defaults but for addresses, the drain delay and `flags`. A place in
// the temporary folder is its socket.
ServingProcess StartAttn(const ServingSetting& setting,
                         const std::vector<std::string>& flags = {});

// Answers any request with so many bytes.
ServingProcess StartEcho(const ServingSetting& setting, size_t response_bytes);

// PyTorch behind gRPC for Python (peers/torch_server.py), in so many processes.
ServingProcess StartTorch(const ServingSetting& setting, unsigned processes);

}  // namespace attn
