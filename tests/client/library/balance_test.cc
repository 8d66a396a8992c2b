// One client, several servers behind one address.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/library/layer_client.h"
#include "client/library/raw_call.h"
#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/client/library/scripted_server.h"

namespace attn {
namespace {

class BalanceTest : public ::testing::Test {
 protected:
  BalanceTest() {
    for (auto& server : servers_) server = std::make_unique<ScriptedServer>();
  }

  RawChannel Channel() const {
    std::string address = "ipv4:";
    for (const auto& server : servers_) {
      absl::StrAppend(&address, address.back() == ':' ? "" : ",",
                      server->address());
    }
    return *RawChannel::Create(
        {.address = address,
         .retry = {.initial_backoff = absl::Milliseconds(1)}});
  }
  static absl::Status Call(const RawChannel& channel) {
    const grpc::Slice slice("request");
    return channel
        .Call("/any.Service/Method", grpc::ByteBuffer(&slice, 1),
              {.repeat = Repeat::kAlways})
        .status();
  }
  std::vector<size_t> Received() const {
    std::vector<size_t> counts;
    for (const auto& server : servers_) {
      counts.push_back(server == nullptr ? 0 : server->received().size());
    }
    return counts;
  }
  // Until there is a connection to each.
  void Connect(const RawChannel& channel) {
    constexpr int kBound = 100000;
    for (int i = 0; i < kBound; ++i) {
      ASSERT_TRUE(Call(channel).ok());
      const auto counts = Received();
      if (*std::min_element(counts.begin(), counts.end()) > 0) return;
    }
    FAIL() << "a server was never called";
  }

  std::vector<std::unique_ptr<ScriptedServer>> servers_{3};
};

TEST_F(BalanceTest, CallsGoToEachInTurn) {
  const RawChannel channel = Channel();
  Connect(channel);
  const auto before = Received();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Call(channel).ok());
  const auto after = Received();
  for (size_t i = 0; i < servers_.size(); ++i) {
    EXPECT_EQ(after[i] - before[i], 100U) << i;
  }
}

TEST_F(BalanceTest, NoCallIsLostWithAServer) {
  const RawChannel channel = Channel();
  Connect(channel);
  for (int i = 0; i < 300; ++i) {
    if (i == 100) servers_[1] = nullptr;
    const absl::Status status = Call(channel);
    ASSERT_TRUE(status.ok()) << i << ": " << status;
  }
}

// Each server keeps its own: a layer that one has the next would not know.
TEST_F(BalanceTest, LayersAreForOneServer) {
  const auto client = LayerClient::Connect({.address = Channel().address()});
  EXPECT_TRUE(absl::IsInvalidArgument(client.status())) << client.status();
  EXPECT_EQ(FieldOf(client.status()), "address");
}

}  // namespace
}  // namespace attn
