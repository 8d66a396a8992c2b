#include "server/app/signal_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <utility>

namespace attn {
namespace {

// Gives a file that tells of them instead.
int BlockSignals() {
  // A log or a peer that went away is an error of write(2), not our end.
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

}  // namespace

SignalWatcher::SignalWatcher()
    : signals_(BlockSignals()), quit_(eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this] { Watch(); });
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  if (write(quit_, &one, sizeof(one)) == sizeof(one)) thread_.join();
  close(signals_);
  close(quit_);
}

void SignalWatcher::WaitForFirst() {
  MutexLock lock(mutex_);
  while (count_ == 0) changed_.Wait(mutex_);
}

bool SignalWatcher::HasFirst() {
  MutexLock lock(mutex_);
  return count_ > 0;
}

void SignalWatcher::OnSecond(std::function<void()> hurry) {
  MutexLock lock(mutex_);
  hurry_ = std::move(hurry);
  if (count_ > 1 && hurry_) hurry_();
}

void SignalWatcher::Watch() {
  pollfd files[2] = {{signals_, POLLIN, 0}, {quit_, POLLIN, 0}};
  while (true) {
    if (poll(files, 2, -1) < 0) continue;
    if (files[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) == sizeof(info)) Note();
  }
}

void SignalWatcher::Note() {
  MutexLock lock(mutex_);
  ++count_;
  changed_.NotifyAll();
  if (count_ > 1 && hurry_) hurry_();
}

}  // namespace attn
