#include "tests/bench/serving/closed_loop.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/bench/probe.h"

namespace attn {
namespace {

constexpr double kNanosPerSecond = 1e9;

int64_t Now() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct ClosedLoop::Caller {
  const RawChannel& channel;
  HdrHistogram times;
  int64_t sent = 0;
};

ClosedLoop::ClosedLoop(const std::string& address, LoopLoad load,
                       const grpc::ByteBuffer& request)
    : request_(request) {
  for (int i = 0; i < load.connections; ++i) {
    channels_.push_back(ChannelTo(address));
  }
  for (int i = 0; i < load.callers; ++i) {
    const RawChannel& channel =
        channels_[static_cast<size_t>(i) % channels_.size()];
    callers_.push_back(
        std::make_unique<Caller>(Caller{channel, HdrHistogram(), 0}));
  }
}

ClosedLoop::~ClosedLoop() {
  stop_ = true;
  WaitForCallers();
}

void ClosedLoop::Start() {
  stop_ = false;
  active_ = static_cast<int>(callers_.size());
  started_ = Now();
  for (const auto& caller : callers_) {
    caller->times = HdrHistogram();
    Send(*caller);
  }
}

void ClosedLoop::Send(Caller& caller) {
  caller.sent = Now();
  caller.channel.CallAsync(
      kAttendMethod, request_, {},
      [this, &caller](const absl::Status& status, const grpc::ByteBuffer&) {
        Answered(caller, status);
      });
}

void ClosedLoop::Answered(Caller& caller, const absl::Status& status) {
  if (status.ok()) {
    caller.times.Record(Now() - caller.sent);
    if (!stop_.load(std::memory_order_relaxed)) {
      Send(caller);
      return;
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  failure_.Update(status);
  if (--active_ == 0) ended_.notify_all();
}

void ClosedLoop::WaitForCallers() {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [this] { return active_ == 0; });
}

LoopResult ClosedLoop::Stop() {
  stop_ = true;
  WaitForCallers();
  const double seconds =
      static_cast<double>(Now() - started_) / kNanosPerSecond;
  if (!failure_.ok()) throw std::runtime_error(failure_.ToString());
  LoopResult result;
  for (const auto& caller : callers_) result.times.Merge(caller->times);
  result.calls_per_second = static_cast<double>(result.times.count()) / seconds;
  return result;
}

LoopResult ClosedLoop::Run(double seconds) {
  Start();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return Stop();
}

}  // namespace attn
