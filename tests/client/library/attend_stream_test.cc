#include "client/library/attend_stream.h"

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// A server whose messages are short, and a client of it.
class AttendStreamTest : public ::testing::Test {
 protected:
  static constexpr int64_t kMessageBytes = 100000;

  AttendStreamTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 2;
    options.max_message_bytes = kMessageBytes;
    options.max_stream_calls = 3;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~AttendStreamTest() override { server_->Hurry(); }

  AttentionClient Client() const {
    return *AttentionClient::Connect({.address = server_->grpc_addresses()[0]});
  }
  std::unique_ptr<AttendStream> Stream() const {
    auto stream = Client().OpenStream();
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  LineLog log_;
  std::unique_ptr<Server> server_;
};

// q = 0: every key weighs the same, so the output is the mean of v, which is
// `value` everywhere.
struct ConstantCall {
  HostTensor q;
  HostTensor k;
  HostTensor v;

  ConstantCall(int64_t tokens, double value)
      : q(DType::kF32, {1, 1, tokens, 16}),
        k(DType::kF32, {1, 1, tokens, 16}),
        v(DType::kF32, {1, 1, tokens, 16}) {
    for (int64_t i = 0; i < v.element_count(); ++i) v.Set(i, value);
  }
  AttendMessage Message() const {
    AttendMessage message;
    message.args.q = q.view();
    message.args.k = k.view();
    message.args.v = v.view();
    message.wanted.output = true;
    return message;
  }
};

void ExpectAll(const absl::StatusOr<AttendResult>& result, double value) {
  ASSERT_TRUE(result.ok()) << result.status();
  const auto output = OutputOf(*result, "output");
  ASSERT_TRUE(output.ok()) << output.status();
  for (const float x : output->values<float>()) {
    ASSERT_FLOAT_EQ(x, static_cast<float>(value));
  }
}

// Of kernel and length: seconds, unless it is cancelled.
AttendMessage SlowMessage(const ConstantCall& call) {
  AttendMessage message = call.Message();
  message.kernel = "reference";
  return message;
}
constexpr int64_t kSlowTokens = 6000;

TEST_F(AttendStreamTest, CallsOfManyThreadsShareAStream) {
  const auto stream = Stream();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&stream, i] {
      for (int j = 0; j < 5; ++j) {
        const ConstantCall call(3 + i, i * 10 + j);
        ExpectAll(stream->Attend(call.Message()), i * 10 + j);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(stream->Close().ok());
}

// 3 * 5000 * 64 bytes: ten messages.
TEST_F(AttendStreamTest, ALargeCallGoesInChunksBothWays) {
  const ConstantCall call(5000, 7);
  const auto stream = Stream();
  AttendMessage message = call.Message();
  message.wanted.lse = true;
  ExpectAll(stream->Attend(message), 7);
  // From a view that does not lie in the order of the wire.
  message.bshd = true;
  ExpectAll(stream->Attend(message), 7);
  std::promise<absl::StatusOr<AttendResult>> promise;
  stream->AttendAsync(message, absl::ZeroDuration(), [&promise](auto result) {
    promise.set_value(std::move(result));
  });
  ExpectAll(promise.get_future().get(), 7);
  EXPECT_TRUE(stream->Close().ok());
}

TEST_F(AttendStreamTest, AFailingCallKeepsItsWordsAndLeavesTheStreamAlone) {
  const auto stream = Stream();
  const ConstantCall call(4, 1);
  AttendMessage bad = call.Message();
  bad.kernel = "warp";
  const auto refused = stream->Attend(bad);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused.status()), "kernel");
  // In chunks as well: refused at its header.
  const ConstantCall large(5000, 1);
  bad = large.Message();
  bad.kernel = "warp";
  EXPECT_EQ(FieldOf(stream->Attend(bad).status()), "kernel");
  ExpectAll(stream->Attend(call.Message()), 1);
}

TEST_F(AttendStreamTest, ACallEndsAtItsDeadlineAndTheMemoryIsFree) {
  const auto stream = Stream();
  const ConstantCall slow(kSlowTokens, 1);
  const auto late = stream->Attend(SlowMessage(slow), absl::Milliseconds(100));
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  const ConstantCall next(4, 2);
  ExpectAll(stream->Attend(next.Message()), 2);
}

TEST_F(AttendStreamTest, ACallMayBeCancelled) {
  const auto stream = Stream();
  const ConstantCall slow(kSlowTokens, 1);
  std::promise<absl::Status> cancelled;
  const uint64_t call = stream->AttendAsync(
      SlowMessage(slow), absl::ZeroDuration(),
      [&cancelled](const auto& r) { cancelled.set_value(r.status()); });
  stream->Cancel(call);
  EXPECT_EQ(cancelled.get_future().get().code(), absl::StatusCode::kCancelled);
  // Once is enough.
  stream->Cancel(call);
  const ConstantCall next(4, 2);
  ExpectAll(stream->Attend(next.Message()), 2);
  EXPECT_TRUE(stream->Close().ok());
}

// More calls than the server has open: they wait here, and all are answered.
TEST_F(AttendStreamTest, CloseWaitsForEveryCall) {
  constexpr int kCalls = 50;
  const auto stream = Stream();
  std::atomic<int> answered = 0;
  for (int i = 0; i < kCalls; ++i) {
    const ConstantCall call(i % 2 == 0 ? 4 : 2000, i);
    stream->AttendAsync(call.Message(), absl::ZeroDuration(),
                        [&answered, i](const auto& result) {
                          ExpectAll(result, i);
                          ++answered;
                        });
  }
  EXPECT_TRUE(stream->Close().ok());
  EXPECT_EQ(answered, kCalls);
  const ConstantCall call(4, 1);
  EXPECT_EQ(stream->Attend(call.Message()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(AttendStreamTest, EveryCallFailsWhenTheServerGoes) {
  const auto stream = Stream();
  const ConstantCall slow(kSlowTokens, 1);
  std::promise<absl::Status> failed;
  stream->AttendAsync(
      SlowMessage(slow), absl::ZeroDuration(),
      [&failed](const auto& r) { failed.set_value(r.status()); });
  const ConstantCall first(4, 2);
  ExpectAll(stream->Attend(first.Message()), 2);
  server_->Hurry();
  server_->Stop();
  EXPECT_FALSE(failed.get_future().get().ok());
  EXPECT_FALSE(stream->Attend(first.Message()).ok());
  EXPECT_FALSE(stream->Close().ok());
}

TEST_F(AttendStreamTest, AStreamThatIsDroppedFailsItsCalls) {
  const ConstantCall slow(kSlowTokens, 1);
  std::promise<absl::Status> failed;
  {
    const auto stream = Stream();
    stream->AttendAsync(
        SlowMessage(slow), absl::ZeroDuration(),
        [&failed](const auto& r) { failed.set_value(r.status()); });
  }
  EXPECT_FALSE(failed.get_future().get().ok());
}

TEST_F(AttendStreamTest, AResponseBeyondTheCallersLimitIsRefused) {
  const auto channel =
      RawChannel::Create({.address = server_->grpc_addresses()[0]});
  ASSERT_TRUE(channel.ok());
  AttendStream stream(*channel, {.max_message_bytes = kMessageBytes,
                                 .max_calls = 3,
                                 .max_response_bytes = 200000});
  const ConstantCall call(5000, 7);
  const auto refused = stream.Attend(call.Message());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("200000"));
  const ConstantCall small(4, 2);
  ExpectAll(stream.Attend(small.Message()), 2);
}

TEST_F(AttendStreamTest, NobodyThereIsSaid) {
  auto client = AttentionClient::Connect({.address = "127.0.0.1:1"});
  ASSERT_TRUE(client.ok());
  EXPECT_FALSE(client->OpenStream().ok());
  const auto channel = RawChannel::Create({.address = "127.0.0.1:1"});
  ASSERT_TRUE(channel.ok());
  AttendStream stream(*channel, {});
  const ConstantCall call(4, 1);
  EXPECT_EQ(stream.Attend(call.Message()).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace attn
