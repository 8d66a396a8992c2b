#include "client/library/raw_call.h"

#include <malloc.h>

#include <chrono>
#include <future>
#include <thread>

#include "attention/v1/attention.pb.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

// gRPC's threads ended with the process's last channel. A call that had just
// ended held its channel for a moment longer than the caller, so that one of
// those threads waited for itself and freed what it ran on.
TEST(RawChannelTest, ACallerMayLetGoOfTheChannelBeforeTheCallbackReturns) {
  const grpc::ByteBuffer request =
      Serialize(::attention::v1::GetServerInfoRequest());
  std::promise<absl::Status> ended;
  std::promise<void> returned;
  {
    // Nobody listens there: the call ends at once.
    const auto channel = RawChannel::Create({.address = "127.0.0.1:1"});
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel->CallAsync(
        kGetServerInfoMethod, request, {},
        [&](const absl::Status& status, const grpc::ByteBuffer&) {
          ended.set_value(status);
          // Time for the channel to go meanwhile.
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          returned.set_value();
        });
    EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kUnavailable);
  }
  returned.get_future().wait();
}

// The same where the callback itself is the last to hold it, as a load that
// ends while its last steps are answered.
TEST(RawChannelTest, ACallbackMayBeTheLastToHoldItsChannel) {
  const grpc::ByteBuffer request =
      Serialize(::attention::v1::GetServerInfoRequest());
  // What is freed is overwritten, so that its use shows: by the C library's own
  // allocator, which sanitizers replace.
  mallopt(M_PERTURB, 0xa5);
  for (int i = 0; i < 20; ++i) {
    auto channel = RawChannel::Create({.address = "127.0.0.1:1"});
    ASSERT_TRUE(channel.ok()) << channel.status();
    std::promise<void> let_go;
    std::promise<absl::Status> ended;
    channel->CallAsync(
        kGetServerInfoMethod, request, {},
        [held = *channel, &ended, gone = let_go.get_future().share()](
            const absl::Status& status, const grpc::ByteBuffer&) {
          gone.wait();
          ended.set_value(status);
        });
    channel = absl::UnavailableError("let go of");
    let_go.set_value();
    EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kUnavailable);
  }
  mallopt(M_PERTURB, 0);
}

}  // namespace
}  // namespace attn
