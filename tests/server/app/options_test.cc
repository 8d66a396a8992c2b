#include "server/app/options.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/listen_address.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

TEST(Options, TheDefaultsFit) { EXPECT_TRUE(Validate({}).ok()); }

TEST(Options, NothingIsReachableFromElsewhereUnlessToldSo) {
  const ServerOptions options;
  for (const std::string& address : options.grpc_addresses) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  EXPECT_TRUE(IsLoopback(options.metrics_address));
}

struct Bad {
  const char* flag;
  std::function<void(ServerOptions&)> spoil;
};

// What does not fit is named by its flag, in one line.
void ExpectNamed(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    ServerOptions options;
    bad.spoil(options);
    const std::string message(Validate(options).message());
    EXPECT_THAT(message, HasSubstr(bad.flag));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Options, WhatDoesNotFitOfTheTransportIsNamed) {
  ExpectNamed({
      {"--grpc-address", [](auto& o) { o.grpc_addresses.clear(); }},
      {"--grpc-address", [](auto& o) { o.grpc_addresses = {"8001"}; }},
      {"--grpc-address", [](auto& o) { o.grpc_addresses = {"unix:"}; }},
      {"--metrics-address", [](auto& o) { o.metrics_address = "x:70000"; }},
      {"--advertise-address=attn-1: must",
       [](auto& o) { o.advertise_address = "attn-1"; }},
      {"--advertise-address=attn-1:0",
       [](auto& o) { o.advertise_address = "attn-1:0"; }},
      {"--advertise-address",
       [](auto& o) { o.advertise_address = "attn 1:8001"; }},
      {"--advertise-address=attn-1:8001\\n",
       [](auto& o) { o.advertise_address = "attn-1:8001\n"; }},
      {"--advertise-address",
       [](auto& o) { o.advertise_address = "http://attn-1:8001"; }},
      {"--max-message-bytes", [](auto& o) { o.max_message_bytes = 0; }},
      {"--max-message-bytes",
       [](auto& o) {
         o.max_message_bytes = int64_t{1} << 31;
         o.max_inflight_bytes = int64_t{1} << 40;
       }},
      {"--max-inflight-bytes", [](auto& o) { o.max_inflight_bytes = 1000; }},
      {"--max-transport-bytes", [](auto& o) { o.max_transport_bytes = -1; }},
      {"--max-transport-bytes",
       [](auto& o) { o.max_transport_bytes = o.max_message_bytes - 1; }},
      {"--max-transport-bytes",
       [](auto& o) {
         o.max_message_bytes = 1000;
         o.max_transport_bytes = int64_t{32} << 20;
       }},
      {"--max-concurrent-streams",
       [](auto& o) { o.max_concurrent_streams = 0; }},
      {"--max-concurrent-streams",
       [](auto& o) { o.max_concurrent_streams = int64_t{1} << 31; }},
      {"--session-spill-after",
       [](auto& o) { o.session_spill_after = -absl::Seconds(1); }},
      {"--max-sessions", [](auto& o) { o.max_sessions = -1; }},
      {"--session-evict-after",
       [](auto& o) { o.session_evict_after = -absl::Seconds(1); }},
      {"--max-spill-bytes", [](auto& o) { o.max_spill_bytes = -1; }},
      {"--idle-trim-delay",
       [](auto& o) { o.idle_trim_delay = -absl::Seconds(1); }},
  });
}

TEST(Options, WhatDoesNotFitOfTheRestIsNamed) {
  ExpectNamed(
      {{"--compute-threads", [](auto& o) { o.compute_threads = -1; }},
       {"--compute-niceness", [](auto& o) { o.compute_niceness = -1; }},
       {"--compute-niceness=20", [](auto& o) { o.compute_niceness = 20; }},
       {"--max-queue-size",
        [](auto& o) { o.max_queue_size = o.max_concurrent_requests + 1; }},
       {"--max-batch-tokens", [](auto& o) { o.max_batch_tokens = 0; }},
       {"--max-queue-delay-us",
        [](auto& o) { o.max_queue_delay = -absl::Microseconds(1); }},
       {"--priority-ageing-ms",
        [](auto& o) { o.priority_ageing = -absl::Milliseconds(1); }},
       {"--max-stream-calls", [](auto& o) { o.max_stream_calls = 0; }},
       {"--default-timeout-ms",
        [](auto& o) { o.default_timeout = absl::ZeroDuration(); }},
       {"--tls-key", [](auto& o) { o.tls_cert = "cert.pem"; }},
       {"--tls-cert", [](auto& o) { o.tls_key = "key.pem"; }},
       {"--tls-client-ca", [](auto& o) { o.tls_client_ca = "ca.pem"; }},
       {"--tls-reload-seconds",
        [](auto& o) { o.tls_reload = absl::ZeroDuration(); }},
       {"--tenant-max-requests", [](auto& o) { o.tenant_max_requests = -1; }},
       {"--tenant-max-inflight-bytes",
        [](auto& o) { o.tenant_max_inflight_bytes = -1; }},
       {"--min-ping-interval",
        [](auto& o) { o.min_ping_interval = -absl::Seconds(1); }},
       {"--max-connection-age",
        [](auto& o) { o.max_connection_age = -absl::Seconds(1); }},
       {"--min-ping-interval",
        [](auto& o) { o.min_ping_interval = absl::InfiniteDuration(); }},
       {"--drain-delay", [](auto& o) { o.drain_delay = -absl::Seconds(1); }},
       {"--entropy-sample-rate", [](auto& o) { o.entropy_sample_rate = 1.5; }},
       {"--entropy-sample-rate", [](auto& o) {
          o.entropy_sample_rate = std::numeric_limits<double>::quiet_NaN();
        }}});
}

TEST(Options, TheTransportHoldsAsMuchAsMayBeInsideUnlessTold) {
  ServerOptions options;
  EXPECT_EQ(TransportBytes(options), options.max_inflight_bytes);
  options.max_inflight_bytes = 1000;
  EXPECT_EQ(TransportBytes(options), int64_t{64} << 20);
  options.max_transport_bytes = int64_t{100} << 20;
  EXPECT_EQ(TransportBytes(options), int64_t{100} << 20);
}

TEST(Options, ReflectionIsOffWhereTokensAreAskedForUnlessTold) {
  ServerOptions options;
  EXPECT_TRUE(ServesReflection(options));
  options.auth_token_file = "tokens";
  EXPECT_FALSE(ServesReflection(options));
  options.reflection = ReflectionMode::kOn;
  EXPECT_TRUE(ServesReflection(options));
  options = {};
  options.reflection = ReflectionMode::kOff;
  EXPECT_FALSE(ServesReflection(options));
}

TEST(Options, ABudgetBelowOneMessageNamesBothFlags) {
  ServerOptions options;
  options.max_inflight_bytes = options.max_message_bytes - 1;
  const std::string message(Validate(options).message());
  EXPECT_THAT(message, HasSubstr("--max-inflight-bytes="));
  EXPECT_THAT(message, HasSubstr("--max-message-bytes="));
}

TEST(Options, AQueueDelayNeedsAQueueAndNamesBothFlags) {
  ServerOptions options;
  options.max_queue_size = 0;
  EXPECT_TRUE(Validate(options).ok());
  options.max_queue_delay = absl::Microseconds(200);
  const std::string message(Validate(options).message());
  EXPECT_THAT(message, HasSubstr("--max-queue-delay-us=200: "));
  EXPECT_THAT(message, HasSubstr("--max-queue-size=0"));
  options.max_queue_size = 1;
  EXPECT_TRUE(Validate(options).ok());
}

}  // namespace
}  // namespace attn
