// Runs a program as a user does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace attn {

struct ProgramResult {
  // -1 if it was ended by a signal.
  int exit_code = -1;
  std::string out;
  std::string err;
};

// argv[0] is the program's path. `environment` is added to this process's, as
// "NAME=value". Waits for the end; `meanwhile` is called once it runs.
ProgramResult RunProgram(
    const std::vector<std::string>& argv,
    const std::vector<std::string>& environment = {},
    const std::function<void(pid_t process)>& meanwhile = nullptr);

}  // namespace attn
