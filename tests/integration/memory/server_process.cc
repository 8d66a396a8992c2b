#include "tests/integration/memory/server_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace attn {
namespace {

constexpr int64_t kKibibyte = 1024;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << what << "\n";
  std::abort();
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What a forked child does; it must not allocate. It dies with its parent, so
// that a test that is killed leaves no server behind.
[[noreturn]] void Become(char** arguments, char** variables, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(errors, STDERR_FILENO);
  execve(ATTN_SERVER, arguments, variables);
  _exit(127);
}

// "VmRSS:     1234 kB" of /proc/<pid>/status.
int64_t StatusBytes(pid_t pid, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == name && status >> kibibytes) return kibibytes * kKibibyte;
  }
  Die("no " + name + " of the server: it is gone");
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& flags,
                             const std::vector<std::string>& environment) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) Die("pipe");
  std::vector<std::string> arguments = {
      ATTN_SERVER,       "--grpc-address=127.0.0.1:0", "--metrics-address=",
      "--http-address=", "--drain-delay=0s",           "--nolog-requests"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::vector<char*> argument_pointers = Pointers(arguments);
  std::vector<char*> variable_pointers = Pointers(variables);
  pid_ = fork();
  if (pid_ == 0) {
    Become(argument_pointers.data(), variable_pointers.data(), ends[1]);
  }
  close(ends[1]);
  output_ = fdopen(ends[0], "r");
  address_ = ReadAddress();
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  fclose(output_);
}

std::string ServerProcess::ReadAddress() {
  const std::string mark = "SERVING on ";
  std::string said;
  std::array<char, 4096> line{};
  while (fgets(line.data(), line.size(), output_) != nullptr) {
    said += line.data();
    const size_t found = said.find(mark);
    if (found == std::string::npos) continue;
    const std::string addresses = said.substr(found + mark.size());
    return addresses.substr(0, addresses.find_first_of(",\n"));
  }
  Die("attn-server did not start: " + said);
}

int ServerProcess::Stop() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void ServerProcess::Freeze() const { kill(pid_, SIGSTOP); }

void ServerProcess::Thaw() const { kill(pid_, SIGCONT); }

int64_t ServerProcess::MinorFaults() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  // After "(name)": state, six numbers, then minflt.
  std::istringstream fields(all.substr(all.rfind(')') + 1));
  constexpr int kFieldsBefore = 7;
  std::string skipped;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> skipped;
  int64_t faults = -1;
  fields >> faults;
  if (faults < 0) Die("no fault count of the server: it is gone");
  return faults;
}

int64_t ServerProcess::ResidentBytes() const {
  return StatusBytes(pid_, "VmRSS:");
}

int64_t ServerProcess::PeakResidentBytes() const {
  return StatusBytes(pid_, "VmHWM:");
}

void ServerProcess::ForgetPeak() const {
  std::ofstream("/proc/" + std::to_string(pid_) + "/clear_refs") << "5\n";
}

}  // namespace attn
