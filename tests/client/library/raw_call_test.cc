#include "client/library/raw_call.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "attention/v1/attention.pb.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

// gRPC's threads end with the process's last channel. A call that had just
// ended held its channel for a moment longer than the caller, so that one of
// those threads waited for itself and freed what it ran on.
TEST(RawChannelTest, GrpcsThreadsAreEndedByWhoLetsGoOfTheChannel) {
  const grpc::ByteBuffer request =
      Serialize(::attention::v1::GetServerInfoRequest());
  std::promise<absl::Status> ended;
  std::atomic<bool> returned{false};
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
          returned = true;
        });
    EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(returned);
}

}  // namespace
}  // namespace attn
