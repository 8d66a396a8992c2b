#include "client/cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace attn {
namespace {

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

int BlockEndingSignals() {
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

void UnblockEndingSignals() {
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

Interrupt::Interrupt()
    : signals_(BlockEndingSignals()), quit_(eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this] { Watch(); });
}

Interrupt::~Interrupt() {
  const uint64_t one = 1;
  if (write(quit_, &one, sizeof(one)) == sizeof(one)) thread_.join();
  close(signals_);
  close(quit_);
  UnblockEndingSignals();
}

void Interrupt::Watch() {
  pollfd files[2] = {{signals_, POLLIN, 0}, {quit_, POLLIN, 0}};
  while (true) {
    if (poll(files, 2, -1) < 0) continue;
    if (files[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    if (source_.request_stop()) continue;
    // The second: this thread takes it, as if nothing had been blocked.
    UnblockEndingSignals();
    raise(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace attn
