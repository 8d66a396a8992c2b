// Connections: how many there are, and who uses which.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/library/raw_call.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kEcho[] = "/any.Service/Echo";

// Answers any call with nothing, or an Echo with its request, and remembers the
// connection that it came by, by the length of its request.
class PeerRecorder final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(*this, context->peer(), context->method() == kEcho);
  }

  std::set<std::string> PeersOf(size_t size) {
    const std::lock_guard lock(mutex_);
    return peers_[size];
  }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call(PeerRecorder& recorder, std::string peer, bool echo)
        : recorder_(recorder), peer_(std::move(peer)), echo_(echo) {
      StartRead(&request_);
    }
    void OnReadDone(bool /*ok*/) override {
      {
        const std::lock_guard lock(recorder_.mutex_);
        recorder_.peers_[request_.Length()].insert(peer_);
      }
      const grpc::Slice nothing("");
      response_ = echo_ ? request_ : grpc::ByteBuffer(&nothing, 1);
      StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    PeerRecorder& recorder_;
    const std::string peer_;
    const bool echo_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
  };

  std::mutex mutex_;
  std::map<size_t, std::set<std::string>> peers_;
};

class ConnectionsTest : public ::testing::Test {
 protected:
  ConnectionsTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterCallbackGenericService(&recorder_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  static grpc::ByteBuffer Bytes(size_t size) {
    const grpc::Slice slice(std::string(size, 'x'));
    return {&slice, 1};
  }
  static absl::Status Call(const RawChannel& channel, size_t size) {
    return channel.Call("/any.Service/Method", Bytes(size), {}).status();
  }

  PeerRecorder recorder_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(ConnectionsTest, SmallAndLargeRequestsUseDifferentConnections) {
  const auto channel = RawChannel::Create({.address = address_});
  ASSERT_TRUE(channel.ok());
  constexpr size_t kSmall = kLargeRequestBytes - 1;
  constexpr size_t kLarge = kLargeRequestBytes;
  for (int i = 0; i < 3; ++i) {
    for (const size_t size : {size_t{16}, kSmall, kLarge, 8 * kLarge}) {
      ASSERT_TRUE(Call(*channel, size).ok());
    }
  }
  EXPECT_EQ(recorder_.PeersOf(16).size(), 1U);
  EXPECT_EQ(recorder_.PeersOf(16), recorder_.PeersOf(kSmall));
  EXPECT_EQ(recorder_.PeersOf(kLarge).size(), 1U);
  EXPECT_EQ(recorder_.PeersOf(kLarge), recorder_.PeersOf(8 * kLarge));
  EXPECT_NE(recorder_.PeersOf(16), recorder_.PeersOf(kLarge));
}

TEST_F(ConnectionsTest, ChannelsOfOneProcessShareThemUnlessTheyAreNumbered) {
  const auto first = RawChannel::Create({.address = address_});
  const auto second = RawChannel::Create({.address = address_});
  const auto third = RawChannel::Create({.address = address_, .connection = 3});
  ASSERT_TRUE(Call(*first, 1).ok());
  ASSERT_TRUE(Call(*second, 2).ok());
  ASSERT_TRUE(Call(*third, 3).ok());
  EXPECT_EQ(recorder_.PeersOf(1), recorder_.PeersOf(2));
  EXPECT_NE(recorder_.PeersOf(1), recorder_.PeersOf(3));
}

// A call that ended before the transport took its message kept the message,
// and Call() waited for it for ever.
TEST_F(ConnectionsTest, ACallThatEndsBeforeItsMessageIsTakenReturns) {
  constexpr size_t kSize = size_t{4} << 20;
  const std::string block(kSize, 'x');
  const auto channel = RawChannel::Create({.address = address_});
  ASSERT_TRUE(Call(*channel, kLargeRequestBytes).ok());
  for (int i = 0; i < 300; ++i) {
    std::atomic<int> borrowed = 0;
    WireChunk chunk;
    chunk.borrowed = reinterpret_cast<const std::byte*>(block.data());
    chunk.borrowed_size = kSize;
    std::vector<WireChunk> chunks;
    chunks.push_back(std::move(chunk));
    const absl::Status status =
        channel
            ->Call("/any.Service/Method",
                   BorrowChunks(std::move(chunks), borrowed),
                   {.deadline = absl::Microseconds(i * 20),
                    .borrowed_slices = &borrowed})
            .status();
    EXPECT_EQ(borrowed, 0);
    EXPECT_TRUE(status.ok() ||
                status.code() == absl::StatusCode::kDeadlineExceeded)
        << status;
  }
}

TEST_F(ConnectionsTest, AResponseThatIsTooLongNamesBothNumbersAndTheOption) {
  const auto channel =
      RawChannel::Create({.address = address_, .max_response_bytes = 1000});
  EXPECT_TRUE(channel->Call(kEcho, Bytes(1000), {}).ok());
  const absl::Status status = channel->Call(kEcho, Bytes(1001), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1001"), HasSubstr("1000"),
                    HasSubstr("max_response_bytes")));
}

TEST_F(ConnectionsTest, ARequestOfTwoGibibytesIsRefusedHereWithBothNumbers) {
  constexpr size_t kBlock = size_t{64} << 20;
  const std::string block(kBlock, '\0');
  std::vector<grpc::Slice> slices(
      32, grpc::Slice(block.data(), kBlock, grpc::Slice::STATIC_SLICE));
  const auto channel = RawChannel::Create({.address = address_});
  const absl::Status status =
      channel
          ->Call("/any.Service/Method",
                 grpc::ByteBuffer(slices.data(), slices.size()), {})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("2147483648"), HasSubstr("2147483647"),
                    HasSubstr("send less in one call")));
  EXPECT_TRUE(recorder_.PeersOf(32 * kBlock).empty());
}

}  // namespace
}  // namespace attn
