#include "server/app/options.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

TEST(Options, TheDefaultsFit) { EXPECT_TRUE(Validate({}).ok()); }

TEST(Options, WhatDoesNotFitIsNamedByItsFlagInOneLine) {
  struct Bad {
    const char* flag;
    std::function<void(ServerOptions&)> spoil;
  };
  const std::vector<Bad> cases = {
      {"--grpc-address", [](auto& o) { o.grpc_addresses.clear(); }},
      {"--grpc-address", [](auto& o) { o.grpc_addresses = {"8001"}; }},
      {"--grpc-address", [](auto& o) { o.grpc_addresses = {"unix:"}; }},
      {"--metrics-address", [](auto& o) { o.metrics_address = "x:70000"; }},
      {"--max-message-bytes", [](auto& o) { o.max_message_bytes = 0; }},
      {"--max-message-bytes",
       [](auto& o) {
         o.max_message_bytes = int64_t{1} << 31;
         o.max_inflight_bytes = int64_t{1} << 40;
       }},
      {"--max-inflight-bytes", [](auto& o) { o.max_inflight_bytes = 1000; }},
      {"--max-queue-size",
       [](auto& o) { o.max_queue_size = o.max_concurrent_requests + 1; }},
      {"--max-batch-tokens", [](auto& o) { o.max_batch_tokens = 0; }},
      {"--default-timeout-ms",
       [](auto& o) { o.default_timeout = absl::ZeroDuration(); }},
      {"--compute-threads", [](auto& o) { o.compute_threads = -1; }},
      {"--drain-delay", [](auto& o) { o.drain_delay = -absl::Seconds(1); }},
      {"--entropy-sample-rate", [](auto& o) { o.entropy_sample_rate = 1.5; }},
      {"--entropy-sample-rate", [](auto& o) {
         o.entropy_sample_rate = std::numeric_limits<double>::quiet_NaN();
       }}};
  for (const Bad& bad : cases) {
    ServerOptions options;
    bad.spoil(options);
    const std::string message(Validate(options).message());
    EXPECT_THAT(message, HasSubstr(bad.flag));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Options, ABudgetBelowOneMessageNamesBothFlags) {
  ServerOptions options;
  options.max_inflight_bytes = options.max_message_bytes - 1;
  const std::string message(Validate(options).message());
  EXPECT_THAT(message, HasSubstr("--max-inflight-bytes="));
  EXPECT_THAT(message, HasSubstr("--max-message-bytes="));
}

}  // namespace
}  // namespace attn
