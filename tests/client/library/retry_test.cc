// Calls that fail and are made again, seen from the server.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/layer_client.h"
#include "client/library/outputs.h"
#include "client/library/raw_call.h"
#include "gtest/gtest.h"
#include "proto/codec/status_codec.h"
#include "server/app/server.h"
#include "tests/client/library/scripted_server.h"

namespace attn {
namespace {

constexpr char kMethod[] = "/any.Service/Method";

absl::Status Draining() { return absl::UnavailableError("draining"); }
absl::Status Full(absl::Duration delay = absl::Milliseconds(1)) {
  return WithRetryDelay(absl::ResourceExhaustedError("the queue is full"),
                        delay);
}

// Waits little, so that tests do.
RetryPolicy Soon() {
  return {.initial_backoff = absl::Milliseconds(1),
          .max_backoff = absl::Milliseconds(10)};
}

class RetryTest : public ::testing::Test {
 protected:
  RawChannel Channel(const RetryPolicy& policy = Soon()) const {
    return *RawChannel::Create({.address = server_.address(), .retry = policy});
  }
  ClientOptions Options() const {
    return {.address = server_.address(), .retry = Soon()};
  }
  static absl::StatusOr<grpc::ByteBuffer> Call(
      const RawChannel& channel, Repeat repeat = Repeat::kAlways,
      absl::Duration deadline = absl::Seconds(60)) {
    const grpc::Slice slice("request");
    return channel.Call(kMethod, grpc::ByteBuffer(&slice, 1),
                        {.deadline = deadline, .repeat = repeat});
  }
  // How it ends; the program does if that is told twice.
  static std::future<absl::Status> CallAsync(const RawChannel& channel) {
    const auto promise = std::make_shared<std::promise<absl::Status>>();
    auto end = promise->get_future();
    const grpc::Slice slice("request");
    channel.CallAsync(
        kMethod, grpc::ByteBuffer(&slice, 1), {.repeat = Repeat::kAlways},
        [promise](const absl::Status& status, const grpc::ByteBuffer&) {
          promise->set_value(status);
        });
    return end;
  }
  // How many calls have come since this was last asked.
  size_t Came() {
    const size_t before = std::exchange(seen_, server_.received().size());
    return seen_ - before;
  }

  ScriptedServer server_;
  size_t seen_ = 0;
};

TEST_F(RetryTest, AServerThatFailsForAMomentIsNotNoticed) {
  for (const absl::Status& failure : {Draining(), Full()}) {
    server_.Fail(3, failure);
    const auto response = Call(Channel());
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->Length(), std::string("request").size());
    EXPECT_EQ(Came(), 4U);
  }
}

TEST_F(RetryTest, AfterTheLastAttemptTheServersWordsComeBack) {
  server_.Fail(5, Draining());
  const absl::Status status = Call(Channel()).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "draining");
  EXPECT_EQ(Came(), 4U);
}

TEST_F(RetryTest, NoAttemptComesBeforeItsTime) {
  server_.Fail(2, Full(absl::Milliseconds(150)));
  ASSERT_TRUE(Call(Channel()).ok());
  const auto received = server_.received();
  ASSERT_EQ(received.size(), 3U);
  EXPECT_GE(received[1].at - received[0].at, absl::Milliseconds(150));
  EXPECT_GE(received[2].at - received[1].at, absl::Milliseconds(150));
}

TEST_F(RetryTest, WhatCannotBecomeBetterIsAskedOnce) {
  for (const absl::Status& failure :
       {absl::InvalidArgumentError("spec"), absl::InternalError("bug"),
        absl::ResourceExhaustedError("never fits"),
        absl::DeadlineExceededError("late"), absl::CancelledError("left")}) {
    server_.Fail(1, failure);
    EXPECT_EQ(Call(Channel()).status().code(), failure.code());
    EXPECT_EQ(Came(), 1U) << failure;
  }
}

// What measures a server does not hide how often it fails.
TEST_F(RetryTest, ACallThatDoesNotAllowItIsMadeOnce) {
  server_.Fail(1, Draining());
  EXPECT_FALSE(Call(Channel(), Repeat::kNever).ok());
  EXPECT_EQ(Came(), 1U);
}

TEST_F(RetryTest, TheDeadlineBoundsAllAttemptsTogether) {
  server_.Fail(100000, Draining());
  const RetryPolicy often{.max_attempts = 100000,
                          .initial_backoff = absl::Milliseconds(20),
                          .max_backoff = absl::Milliseconds(20),
                          .jitter = 0,
                          .max_tokens = 0};
  const absl::Status status =
      Call(Channel(often), Repeat::kAlways, absl::Milliseconds(400)).status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
      << status;
  // 20 waits fit in it.
  EXPECT_LE(Came(), 21U);
}

TEST_F(RetryTest, AServerThatGoesOnFailingIsSoonAskedOncePerCall) {
  RetryPolicy policy = Soon();
  policy.max_attempts = 3;
  policy.max_tokens = 10;
  policy.token_ratio = 1;
  const RawChannel channel = Channel(policy);
  const RawChannel copy = channel;
  server_.Fail(100, Draining());
  std::vector<size_t> attempts;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(Call(i % 2 == 0 ? channel : copy).ok());
    attempts.push_back(Came());
  }
  // 10 tokens, of which more than 5 must be left for another attempt.
  EXPECT_EQ(attempts, (std::vector<size_t>{3, 2, 1, 1, 1}));
}

TEST_F(RetryTest, ALargeRequestIsSentAgainFromWhereItIs) {
  server_.Fail(2, Draining());
  const std::string block(size_t{4} << 20, 'x');
  std::atomic<int> borrowed = 0;
  WireChunk chunk;
  chunk.borrowed = reinterpret_cast<const std::byte*>(block.data());
  chunk.borrowed_size = block.size();
  std::vector<WireChunk> chunks;
  chunks.push_back(std::move(chunk));
  const auto response =
      Channel().Call(kMethod, BorrowChunks(std::move(chunks), borrowed),
                     {.repeat = Repeat::kAlways, .borrowed_slices = &borrowed});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(borrowed, 0);
  ASSERT_EQ(Came(), 3U);
  for (const auto& received : server_.received()) {
    EXPECT_TRUE(received.request == block);
  }
}

TEST_F(RetryTest, AnAsynchronousCallIsMadeAgain) {
  for (const int failures : {0, 2, 4}) {
    server_.Fail(failures, Draining());
    const RawChannel channel = Channel();
    const absl::Status status = CallAsync(channel).get();
    EXPECT_EQ(status.ok(), failures < 4) << status;
    EXPECT_EQ(Came(), failures < 4 ? static_cast<size_t>(failures) + 1 : 4U);
  }
}

TEST_F(RetryTest, ManyAsynchronousCallsWaitBesideEachOther) {
  constexpr int kCalls = 200;
  RetryPolicy policy = Soon();
  policy.max_tokens = 0;
  policy.max_attempts = 10;
  const RawChannel channel = Channel(policy);
  server_.Fail(kCalls, Full());
  std::vector<std::future<absl::Status>> ended;
  ended.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) ended.push_back(CallAsync(channel));
  for (auto& end : ended) {
    const absl::Status status = end.get();
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(Came(), size_t{2} * kCalls);
}

TEST_F(RetryTest, AServerThatIsStartedAgainAnswersTheCallThatFoundItGone) {
  RetryPolicy policy;
  policy.max_attempts = 1000;
  policy.max_backoff = absl::Milliseconds(100);
  policy.max_tokens = 0;
  auto server = std::make_unique<ScriptedServer>();
  const std::string address = server->address();
  const auto channel =
      RawChannel::Create({.address = address, .retry = policy});
  ASSERT_TRUE(Call(*channel).ok());
  server.reset();
  auto call = std::async(std::launch::async, [&] { return Call(*channel); });
  // Whether the call comes before or after this, the server answers it.
  absl::SleepFor(absl::Milliseconds(300));
  server = std::make_unique<ScriptedServer>(address);
  ASSERT_EQ(server->address(), address);
  const auto response = call.get();
  EXPECT_TRUE(response.ok()) << response.status();
}

// ----------------------------------------------------------- the two clients

std::future<absl::StatusOr<AttendResult>> Start(const AttentionClient& client,
                                                const AttendMessage& message) {
  const auto promise =
      std::make_shared<std::promise<absl::StatusOr<AttendResult>>>();
  auto answer = promise->get_future();
  client.AttendAsync(message, {}, [promise](absl::StatusOr<AttendResult> got) {
    promise->set_value(std::move(got));
  });
  return answer;
}

class ClientRetryTest : public RetryTest {
 protected:
  ClientRetryTest() {
    v1::AttendResponse response;
    v1::Tensor& output = *response.mutable_output();
    output.set_dtype(v1::DATA_TYPE_F32);
    for (const int64_t extent : {1, 1, 1, 1}) output.add_shape(extent);
    const float seven = 7;
    output.set_data(&seven, sizeof(seven));
    server_.AnswerWith(response.SerializeAsString());
  }

  // Of 3 MiB.
  AttendMessage Message() const {
    AttendMessage message;
    message.args.q = tensor_.view();
    message.args.k = tensor_.view();
    message.args.v = tensor_.view();
    message.wanted.output = true;
    return message;
  }
  static void ExpectSeven(const absl::StatusOr<AttendResult>& result) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(OutputOf(*result, "output")->At(0), 7);
  }

  const HostTensor tensor_{DType::kF32, {1, 1, 4096, 64}};
};

TEST_F(ClientRetryTest, AttendAndAttendAsyncAreMadeAgain) {
  const auto client = AttentionClient::Connect(Options());
  server_.Fail(2, Draining());
  ExpectSeven(client->Attend(Message()));
  EXPECT_EQ(Came(), 3U);
  server_.Fail(2, Full());
  ExpectSeven(Start(*client, Message()).get());
  EXPECT_EQ(Came(), 3U);
}

TEST_F(ClientRetryTest, SoAreTheOtherCallsThatOnlyRead) {
  server_.AnswerWith("");
  const auto client = AttentionClient::Connect(Options());
  server_.Fail(1, Draining());
  EXPECT_TRUE(client->GetServerInfo().ok());
  EXPECT_EQ(Came(), 2U);
  server_.Fail(1, Draining());
  EXPECT_TRUE(client->Plan(Message()).ok());
  EXPECT_EQ(Came(), 2U);
  server_.Fail(1, Draining());
  InspectMessage inspect;
  const AttendMessage message = Message();
  static_cast<CallMessage&>(inspect) = static_cast<const CallMessage&>(message);
  EXPECT_TRUE(client->Inspect(inspect).ok());
  EXPECT_EQ(Came(), 2U);
  server_.Fail(1, Draining());
  BackwardMessage backward;
  static_cast<CallMessage&>(backward) =
      static_cast<const CallMessage&>(message);
  client->AttendBackward(backward).status().IgnoreError();
  EXPECT_EQ(Came(), 2U);
}

TEST_F(ClientRetryTest, HealthIsAskedOnceSinceItIsTheAnswer) {
  server_.Fail(1, Draining());
  EXPECT_FALSE(AttentionClient::Connect(Options())->Health().ok());
  EXPECT_EQ(Came(), 1U);
}

TEST_F(ClientRetryTest, ALayerIsPutTwiceOnlyIfTheServerDidNothing) {
  server_.AnswerWith("");
  const auto layers = LayerClient::Connect(Options());
  const HostTensor weights(DType::kF32, {2, 2});
  server_.Fail(1, Draining());
  EXPECT_FALSE(layers->Put("a", {{"w", weights.view()}}).ok());
  EXPECT_EQ(Came(), 1U);
  server_.Fail(1, Full());
  EXPECT_TRUE(layers->Put("a", {{"w", weights.view()}}).ok());
  EXPECT_EQ(Came(), 2U);
  server_.Fail(1, Draining());
  EXPECT_FALSE(layers->Delete("a").ok());
  EXPECT_EQ(Came(), 1U);
  server_.Fail(1, Draining());
  EXPECT_TRUE(layers->Describe("a").ok());
  EXPECT_EQ(Came(), 2U);
  server_.Fail(1, Draining());
  EXPECT_TRUE(layers->List().ok());
  EXPECT_EQ(Came(), 2U);
}

// ------------------------------------------------------------ a real server

// Many times more calls at once than the server has places for.
TEST(RetryOfARealServer, WhatItRefusesForTheMomentIsServedInTheEnd) {
  LineLog log(LogFormat::kText, [](const std::string&) {});
  ServerOptions server_options;
  server_options.grpc_addresses = {"127.0.0.1:0"};
  server_options.metrics_address = "";
  server_options.drain_delay = absl::ZeroDuration();
  server_options.compute_threads = 1;
  server_options.max_concurrent_requests = 4;
  server_options.max_queue_size = 2;
  const auto server = Server::Start(server_options, log);
  ASSERT_TRUE(server.ok()) << server.status();
  const HostTensor tensor(DType::kF32, {1, 4, 128, 64});
  AttendMessage message;
  message.args.q = tensor.view();
  message.args.k = tensor.view();
  message.args.v = tensor.view();
  message.wanted.output = true;
  const auto refused = [&](const RetryPolicy& policy) {
    const auto client =
        AttentionClient::Connect({.address = (*server)->grpc_addresses()[0],
                                  .deadline = absl::Minutes(5),
                                  .retry = policy});
    constexpr int kCalls = 100;
    std::vector<std::future<absl::StatusOr<AttendResult>>> answers;
    answers.reserve(kCalls);
    for (int i = 0; i < kCalls; ++i) answers.push_back(Start(*client, message));
    int count = 0;
    for (auto& answer : answers) {
      const absl::Status status = answer.get().status();
      if (status.ok()) continue;
      ++count;
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_TRUE(RetryDelayOf(status).has_value()) << status;
    }
    return count;
  };
  EXPECT_GT(refused({.max_attempts = 1}), 0);
  EXPECT_EQ(refused({.max_attempts = 10000,
                     .max_backoff = absl::Milliseconds(200),
                     .max_tokens = 0}),
            0);
  (*server)->Hurry();
}

}  // namespace
}  // namespace attn
