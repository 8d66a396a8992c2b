// Times of calls, one after the other.
#pragma once

#include <functional>
#include <string>

#include "client/library/raw_call.h"
#include "client/load/hdr_histogram.h"

namespace attn {

// Times of runs in nanoseconds for that long, after a few unmeasured; one at
// least.
HdrHistogram TimesFor(double seconds, const std::function<void()>& run);

// In microseconds.
double MicrosAt(const HdrHistogram& times, double percentile);
// The median of TimesFor().
double MedianMicros(double seconds, const std::function<void()>& run);

// A call that waits for its answer. Throws if it fails, so that the servers
// beside it are stopped on the way out.
std::function<void()> RemoteCall(const RawChannel& channel, const char* method,
                                 const grpc::ByteBuffer& request);

// Whether the server's health service says SERVING.
bool IsServing(const RawChannel& channel);

// Throws if the address cannot be meant. Each call gives a connection of its
// own.
RawChannel ChannelTo(const std::string& address);

}  // namespace attn
