#include "server/app/grpc_listener.h"

#include "attention/v1/attention.grpc.pb.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

// No address is to blame for it.
TEST(GrpcListener, AServerThatGrpcDoesNotStartIsAnError) {
  ::attention::v1::AttentionService::Service once;
  ::attention::v1::AttentionService::Service twice;
  const auto listener = StartGrpcListener(
      {.addresses = {}, .quota_bytes = int64_t{1} << 26}, {&once, &twice});
  EXPECT_TRUE(absl::IsInternal(listener.status())) << listener.status();
}

}  // namespace
}  // namespace attn
