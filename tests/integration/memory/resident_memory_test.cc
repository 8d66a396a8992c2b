// Page faults of large calls, and what a server holds when it rests.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/memory/big_call.h"
#include "tests/integration/memory/server_process.h"

namespace attn {
namespace {

constexpr int64_t kPage = 4096;

class ResidentMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef ATTN_SANITIZED
    GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  }

  static void Repeat(const std::string& address, const BigCall& call,
                     int times) {
    auto client = AttentionClient::Connect({.address = address});
    ASSERT_TRUE(client.ok());
    for (int i = 0; i < times; ++i) {
      const auto result = client->Attend(call.Message());
      ASSERT_TRUE(result.ok()) << result.status();
    }
  }
};

TEST_F(ResidentMemoryTest, ALargeCallAfterAnotherPaysNoPageFaults) {
  constexpr int kCalls = 60;
  const ServerProcess server({"--idle-trim-delay=0s"});
  const BigCall call(16);
  Repeat(server.address(), call, 20);
  const int64_t before = server.MinorFaults();
  Repeat(server.address(), call, kCalls);
  const int64_t faults = server.MinorFaults() - before;
  const int64_t pages = (call.sent_bytes() + call.tensor_bytes()) / kPage;
  RecordProperty("faults_per_call", std::to_string(faults / kCalls));
  EXPECT_LT(faults, kCalls * pages / 20) << "of " << pages << " pages a call";
}

TEST_F(ResidentMemoryTest, AServerAtRestGivesBackWhatItsLoadTook) {
  ServerProcess server({"--idle-trim-delay=500ms"});
  const BigCall large(16);
  const BigCall small(1);
  // What the first calls leave for good: threads, code, plans.
  Repeat(server.address(), small, 3);
  const int64_t start = server.ResidentBytes();
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&server, &large, &small] {
      Repeat(server.address(), large, 3);
      Repeat(server.address(), small, 10);
    });
  }
  for (std::thread& caller : callers) caller.join();
  const int64_t loaded = server.ResidentBytes();
  ASSERT_GT(loaded, start + 2 * large.sent_bytes());
  // Workers keep a little scratch each, the allocator what lies between.
  const int64_t allowed = start + start / 10 + 16 * kMebibyte;
  int64_t rested = loaded;
  for (int i = 0; i < 1000 && rested > allowed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rested = server.ResidentBytes();
  }
  EXPECT_LE(rested, allowed) << "start " << start << ", loaded " << loaded;
  EXPECT_EQ(server.Stop(), 0);
}

// `count` calls, for every second number of keys from `first` on.
void CallEachLength(const AttentionClient& client, int64_t first,
                    int64_t count) {
  constexpr int64_t kDim = 16;
  const std::vector<float> zeros(
      static_cast<size_t>((first + 2 * count) * kDim));
  for (int64_t keys = first; keys < first + 2 * count; keys += 2) {
    AttendMessage message;
    message.args.q =
        TensorView::Dense(zeros.data(), DType::kF32, {1, 1, 1, kDim});
    message.args.k =
        TensorView::Dense(zeros.data(), DType::kF32, {1, 1, keys, kDim});
    message.args.v = message.args.k;
    message.wanted.output = true;
    const auto result = client.Attend(message);
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

// Plans are kept by shape: once that cache is full, new shapes take no more.
// They are no larger than the first, for which the transport has taken what it
// needs.
TEST_F(ResidentMemoryTest, NewShapesTakeNoMemoryOnceTheCachesAreFull) {
  constexpr int64_t kShapes = 1100;  // a few more than plans are kept
  const ServerProcess server({"--idle-trim-delay=0s"});
  auto client = AttentionClient::Connect({.address = server.address()});
  CallEachLength(*client, 1, kShapes);
  const int64_t full = server.ResidentBytes();
  CallEachLength(*client, 2, kShapes);
  EXPECT_LE(server.ResidentBytes(), full + 4 * kMebibyte);
}

}  // namespace
}  // namespace attn
