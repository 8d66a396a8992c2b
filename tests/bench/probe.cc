#include "tests/bench/probe.h"

#include <chrono>
#include <stdexcept>
#include <vector>

#include "client/library/health_message.h"

namespace attn {
namespace {

constexpr int kUnmeasured = 3;
constexpr double kNanosPerMicro = 1e3;

[[noreturn]] void Throw(const absl::Status& status) {
  throw std::runtime_error(status.ToString());
}

}  // namespace

HdrHistogram TimesFor(double seconds, const std::function<void()>& run) {
  for (int i = 0; i < kUnmeasured; ++i) run();
  HdrHistogram times;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto start = std::chrono::steady_clock::now();
  do {
    run();
    const auto now = std::chrono::steady_clock::now();
    times.Record(std::chrono::nanoseconds(now - start).count());
    start = now;
  } while (start < end);
  return times;
}

double MicrosAt(const HdrHistogram& times, double percentile) {
  return static_cast<double>(times.ValueAtPercentile(percentile)) /
         kNanosPerMicro;
}

double MedianMicros(double seconds, const std::function<void()>& run) {
  constexpr double kMedian = 50;
  return MicrosAt(TimesFor(seconds, run), kMedian);
}

std::function<void()> RemoteCall(const RawChannel& channel, const char* method,
                                 const grpc::ByteBuffer& request) {
  return [channel, method, request] {
    const auto response = channel.Call(method, request, {});
    if (!response.ok()) Throw(response.status());
  };
}

bool IsServing(const RawChannel& channel) {
  const grpc::Slice slice(EncodeHealthRequest(""));
  const auto response =
      channel.Call(kHealthCheckMethod, grpc::ByteBuffer(&slice, 1),
                   {.deadline = absl::Seconds(1)});
  if (!response.ok()) return false;
  std::vector<grpc::Slice> slices;
  if (!response->Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  const auto state = DecodeHealthResponse(bytes);
  return state.ok() && *state == HealthState::kServing;
}

RawChannel ChannelTo(const std::string& address) {
  // A new number is a new connection: a channel that was refused once would
  // wait a second before it tries again.
  static int connections = 0;
  ChannelOptions options;
  options.address = address;
  options.connection = ++connections;
  const auto channel = RawChannel::Create(options);
  if (!channel.ok()) Throw(channel.status());
  return *channel;
}

}  // namespace attn
