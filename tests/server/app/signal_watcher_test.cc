#include "server/app/signal_watcher.h"

#include <unistd.h>

#include <csignal>
#include <future>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(SignalWatcher, TheFirstSignalIsWaitedForAndTheSecondHurries) {
  SignalWatcher watcher;
  kill(getpid(), SIGTERM);
  watcher.WaitForFirst();
  std::promise<void> hurried;
  watcher.OnSecond([&hurried] { hurried.set_value(); });
  kill(getpid(), SIGINT);
  hurried.get_future().get();
  watcher.OnSecond(nullptr);
}

}  // namespace
}  // namespace attn
