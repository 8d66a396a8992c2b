#include "client/library/retry_policy.h"

#include <cmath>
#include <string>

#include "client/library/attention_client.h"
#include "client/library/layer_client.h"
#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(RetryPolicy, TheDefaultsCanBeMeantAndSoCanNoRetriesAtAll) {
  EXPECT_TRUE(CheckRetryPolicy({}).ok());
  EXPECT_TRUE(CheckRetryPolicy({.max_attempts = 1}).ok());
  EXPECT_TRUE(CheckRetryPolicy({.jitter = 0, .max_tokens = 0}).ok());
}

TEST(RetryPolicy, NamesTheFieldThatCannotBeMeant) {
  const struct {
    std::string field;
    RetryPolicy policy;
  } cases[] = {
      {"max_attempts", {.max_attempts = 0}},
      {"initial_backoff", {.initial_backoff = absl::ZeroDuration()}},
      {"max_backoff", {.max_backoff = absl::Milliseconds(99)}},
      {"multiplier", {.multiplier = 0.9}},
      {"multiplier", {.multiplier = std::nan("")}},
      {"jitter", {.jitter = 1}},
      {"jitter", {.jitter = -0.1}},
      {"max_tokens", {.max_tokens = -1}},
      {"max_tokens", {.max_tokens = 1001}},
      {"token_ratio", {.token_ratio = 0}},
      {"token_ratio", {.token_ratio = std::nan("")}},
  };
  for (const auto& [field, policy] : cases) {
    const absl::Status status = CheckRetryPolicy(policy);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field;
    EXPECT_EQ(FieldOf(status), "retry." + field) << status;
  }
}

TEST(RetryPolicy, ClientsRefuseOneThatCannotBeMeant) {
  const ClientOptions options{.retry = {.max_attempts = 0}};
  EXPECT_EQ(FieldOf(AttentionClient::Connect(options).status()),
            "retry.max_attempts");
  EXPECT_EQ(FieldOf(LayerClient::Connect(options).status()),
            "retry.max_attempts");
}

}  // namespace
}  // namespace attn
