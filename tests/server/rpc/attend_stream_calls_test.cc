// A stream without a transport: what the thread sanitizer can see whole.
#include "server/rpc/attend_stream_calls.h"

#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/byte_buffer.h"
#include "tests/server/rpc/call_fixture.h"
#include "tests/server/rpc/fake_transport.h"

namespace attn {
namespace {

namespace wire = ::attention::v1;

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AttendStreamCallsTest : public CallFixture {
 protected:
  std::shared_ptr<AttendStreamCalls> Begin(FakeTransport& transport,
                                           int64_t max_calls = 4) {
    return Begin(transport, AttendStreamOptions{.max_calls = max_calls});
  }
  std::shared_ptr<AttendStreamCalls> Begin(
      FakeTransport& transport, const AttendStreamOptions& options,
      AttendStreamCalls::Identify identify = nullptr) {
    auto calls = std::make_shared<AttendStreamCalls>(
        context_, options,
        Caller{.deadline = absl::InfiniteFuture(), .tenant = {"alice", {}}},
        transport, std::move(identify));
    calls->Begin();
    return calls;
  }
  // The client sends no more and takes all that comes.
  static absl::Status Finish(FakeTransport& transport,
                             AttendStreamCalls& calls) {
    if (transport.WaitForReceive()) calls.ReceivedLast();
    while (transport.WaitForSend().has_value()) calls.Sent();
    return transport.WaitForEnd();
  }
  static void Give(FakeTransport& transport, AttendStreamCalls& calls,
                   const wire::AttendStreamRequest& message) {
    ASSERT_TRUE(transport.WaitForReceive());
    grpc::ByteBuffer bytes = ToByteBuffer(message);
    calls.Received(bytes);
    EXPECT_EQ(bytes.Length(), 0);
  }
};

TEST_F(AttendStreamCallsTest, AnAnswerHoldsItsBytesUntilItIsSent) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  Give(transport, *calls, Whole(1, 4));
  const auto answer = transport.WaitForSend();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->call(), 1);
  EXPECT_EQ(answer->response().output().data(), Ones(4).data());
  EXPECT_EQ(admission_.requests(), 1);
  EXPECT_GT(admission_.bytes(), 0);
  calls->Sent();
  EXPECT_EQ(admission_.requests(), 0);
  EXPECT_EQ(admission_.bytes(), 0);
  ASSERT_TRUE(transport.WaitForReceive());
  calls->ReceivedLast();
  EXPECT_TRUE(transport.WaitForEnd().ok());
}

TEST_F(AttendStreamCallsTest, NothingIsReadWhileAsManyCallsAreOpenAsMayBe) {
  FakeTransport transport;
  const auto calls = Begin(transport, /*max_calls=*/2);
  Give(transport, *calls, Whole(1, 4));
  Give(transport, *calls, Whole(2, 4));
  EXPECT_FALSE(transport.wants_message());
  // Answered, but not sent: the call is still open.
  ASSERT_TRUE(transport.WaitForSend().has_value());
  EXPECT_FALSE(transport.wants_message());
  calls->Sent();
  EXPECT_TRUE(transport.wants_message());
  calls->Gone();
  ASSERT_TRUE(transport.WaitForReceive());
  calls->ReceivedLast();
  while (transport.WaitForSend().has_value()) calls->Sent();
  EXPECT_EQ(transport.WaitForEnd().code(), absl::StatusCode::kCancelled);
}

TEST_F(AttendStreamCallsTest, MemoryForChunksIsBookedWithTheHeader) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  Give(transport, *calls, Header(1, 1000));
  const int64_t booked = admission_.bytes();
  EXPECT_GT(booked, 1000 * kStreamDim * 4 * 4);
  Give(transport, *calls, Chunk(1, 1000));
  ASSERT_TRUE(transport.WaitForSend().has_value());
  // The body was booked with the header: the chunk booked nothing more.
  EXPECT_EQ(admission_.bytes(), booked);
  calls->Sent();
  // The worker that computed it may not have let go of it yet.
  EXPECT_TRUE(admission_.WaitUntilEmpty(absl::Minutes(1)));
  EXPECT_EQ(admission_.bytes(), 0);
  ASSERT_TRUE(transport.WaitForReceive());
  calls->ReceivedLast();
  EXPECT_TRUE(transport.WaitForEnd().ok());
}

TEST_F(AttendStreamCallsTest, ACallerWhoMustNotComeInEndsTheStream) {
  FakeTransport transport;
  const auto calls = std::make_shared<AttendStreamCalls>(
      context_, AttendStreamOptions(),
      Caller{.status = absl::UnauthenticatedError("who?")}, transport);
  calls->Begin();
  EXPECT_EQ(transport.WaitForEnd().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(AttendStreamCallsTest, AStreamEndsWhenItsCallsAreAnswered) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  Give(transport, *calls, Header(1, 4));
  Give(transport, *calls, Whole(2, 4));
  calls->EndWith(absl::UnavailableError("stopping"));
  std::set<uint64_t> answered;
  while (const auto answer = transport.WaitForSend()) {
    answered.insert(answer->call());
    EXPECT_EQ(answer->has_status(), answer->call() == 1);
    calls->Sent();
  }
  EXPECT_EQ(answered, (std::set<uint64_t>{1, 2}));
  EXPECT_EQ(transport.WaitForEnd().message(), "stopping");
}

// A status must not keep what its call held until a client takes it.
TEST_F(AttendStreamCallsTest, AFailedCallHoldsNothingWhileItsStatusIsSent) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  Give(transport, *calls, Header(1, 1000));
  EXPECT_GT(admission_.bytes(), 0);
  Give(transport, *calls, Cancel(1));
  const auto answer = transport.WaitForSend();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->has_status());
  EXPECT_EQ(admission_.requests(), 0);
  EXPECT_EQ(admission_.bytes(), 0);
  calls->Sent();
  EXPECT_TRUE(Finish(transport, *calls).ok());
}

TEST_F(AttendStreamCallsTest, AnAnswerThatIsNotTakenInTimeEndsTheStream) {
  FakeTransport transport;
  const auto calls = Begin(transport, {.send_grace = absl::Milliseconds(20)});
  Give(transport, *calls, Whole(1, 4));
  Give(transport, *calls, Whole(2, 4));
  ASSERT_TRUE(transport.WaitForSend().has_value());
  transport.WaitForCut();
  // What the transport says of it then.
  calls->NotSent();
  calls->Gone();
  EXPECT_EQ(transport.WaitForEnd().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(admission_.requests(), 0);
  EXPECT_EQ(admission_.bytes(), 0);
  EXPECT_THAT(Log(), HasSubstr("did not take the answer in time"));
  EXPECT_EQ(Log().find("code=\"OK\""), std::string::npos) << Log();
}

TEST_F(AttendStreamCallsTest, NoTimeoutIsLongerThanTheServersLongest) {
  FakeTransport transport;
  const auto calls = Begin(transport, {.max_timeout = absl::Milliseconds(20)});
  wire::AttendStreamRequest header = Header(1, 4);
  header.set_timeout_ms(1000000000);
  Give(transport, *calls, header);
  const auto answer = transport.WaitForSend();
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->status().message(), HasSubstr("the deadline passed"));
  calls->Sent();
  EXPECT_TRUE(Finish(transport, *calls).ok());
}

// The client has the answer before the transport says that it is sent.
TEST_F(AttendStreamCallsTest, ACallWhoseLastMessageLeavesTakesNoPlace) {
  FakeTransport transport;
  const auto calls = Begin(transport, /*max_calls=*/2);
  Give(transport, *calls, Header(1, 4));
  Give(transport, *calls, Whole(2, 4));
  ASSERT_EQ(transport.WaitForSend()->call(), 2);
  Give(transport, *calls, Whole(3, 4));
  // As many as may be.
  Give(transport, *calls, Whole(4, 4));
  calls->Sent();
  const auto third = transport.WaitForSend();
  EXPECT_EQ(third->call(), 3);
  EXPECT_TRUE(third->has_response()) << third->status().message();
  calls->Sent();
  const auto fourth = transport.WaitForSend();
  EXPECT_EQ(fourth->call(), 4);
  EXPECT_TRUE(fourth->has_status());
  calls->Sent();
  EXPECT_TRUE(Finish(transport, *calls).ok());
}

TEST_F(AttendStreamCallsTest, ACallerIsIdentifiedAnewForEachCall) {
  FakeTransport transport;
  absl::StatusOr<Tenant> known = Tenant{.name = "bob", .quota = {}};
  const auto calls = Begin(transport, {}, [&known] { return known; });
  Give(transport, *calls, Whole(1, 4));
  EXPECT_TRUE(transport.WaitForSend()->has_response());
  calls->Sent();
  EXPECT_THAT(Log(), HasSubstr("tenant=\"bob\""));
  known = absl::UnauthenticatedError("who?");
  Give(transport, *calls, Header(2, 4));
  const auto refused = transport.WaitForSend();
  EXPECT_EQ(refused->status().code(), 16);
  EXPECT_EQ(refused->status().message(), "who?");
  EXPECT_EQ(admission_.requests(), 0);
  calls->Sent();
  EXPECT_TRUE(Finish(transport, *calls).ok());
}

TEST_F(AttendStreamCallsTest, AFaultIsLoggedWithItsTenant) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  Give(transport, *calls, wire::AttendStreamRequest());
  EXPECT_EQ(transport.WaitForEnd().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Log(), HasSubstr("tenant=\"alice\""));
}

TEST_F(AttendStreamCallsTest, AnUnsentAnswerIsNotLoggedAsOk) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  Give(transport, *calls, Whole(1, 4));
  Give(transport, *calls, Whole(2, 4));
  ASSERT_TRUE(transport.WaitForSend().has_value());
  calls->NotSent();
  EXPECT_EQ(transport.WaitForEnd().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Log(), HasSubstr("CANCELLED"));
  EXPECT_EQ(Log().find("code=\"OK\""), std::string::npos) << Log();
}

TEST_F(AttendStreamCallsTest, MessagesMayNotBeAskedToBeShorterThan64KiB) {
  FakeTransport transport;
  const auto calls = Begin(transport);
  wire::AttendStreamRequest request = Whole(1, 4);
  request.set_max_message_bytes((64 << 10) - 1);
  Give(transport, *calls, request);
  EXPECT_THAT(transport.WaitForSend()->status().message(),
              StartsWith("max_message_bytes"));
  calls->Sent();
  request.set_call(2);
  request.set_max_message_bytes(64 << 10);
  Give(transport, *calls, request);
  EXPECT_TRUE(transport.WaitForSend()->has_response());
  calls->Sent();
  EXPECT_TRUE(Finish(transport, *calls).ok());
}

// Messages, cancellations and the client's end at any moment.
class RandomStream {
 public:
  RandomStream(AttendStreamCalls& calls, FakeTransport& transport,
               uint32_t seed)
      : calls_(calls), transport_(transport), random_(seed) {}

  void Run() {
    std::thread sender([this] {
      while (const auto answer = transport_.WaitForSend()) {
        if (answer->has_response() || answer->has_status()) {
          EXPECT_TRUE(answered_.insert(answer->call()).second);
        }
        calls_.Sent();
      }
    });
    std::thread leaver;
    const auto patience = std::chrono::microseconds(random_() % 4000);
    if (random_() % 2 == 0) {
      leaver = std::thread([this, patience] {
        std::this_thread::sleep_for(patience);
        calls_.Gone();
      });
      left_ = true;
    }
    Feed();
    if (leaver.joinable()) leaver.join();
    transport_.WaitForEnd().IgnoreError();
    sender.join();
    if (!left_) {
      EXPECT_EQ(answered_.size(), opened_);
    }
  }

 private:
  static constexpr int kMessages = 40;

  void Feed() {
    std::vector<std::pair<uint64_t, int64_t>> headers;
    for (int i = 0; i < kMessages && transport_.WaitForReceive(); ++i) {
      const auto length = static_cast<int64_t>(1 + random_() % 60);
      grpc::ByteBuffer message;
      if (headers.empty() || random_() % 3 == 0) {
        ++opened_;
        const bool whole = random_() % 2 == 0;
        if (!whole) headers.emplace_back(opened_, length);
        message = ToByteBuffer(whole ? Whole(opened_, length)
                                     : Header(opened_, length));
      } else {
        const auto [call, size] = headers.back();
        headers.pop_back();
        message =
            ToByteBuffer(random_() % 3 == 0 ? Cancel(call) : Chunk(call, size));
      }
      calls_.Received(message);
    }
    if (transport_.WaitForReceive()) calls_.ReceivedLast();
  }

  AttendStreamCalls& calls_;
  FakeTransport& transport_;
  std::minstd_rand random_;
  uint64_t opened_ = 0;
  bool left_ = false;
  std::set<uint64_t> answered_;
};

TEST_F(AttendStreamCallsTest, EveryCallIsAnsweredOnceWhoeverLeavesWhenever) {
  constexpr uint32_t kStreams = 60;
  constexpr uint32_t kAtOnce = 3;
  for (uint32_t round = 0; round < kStreams / kAtOnce; ++round) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([this, seed = round * kAtOnce + i + 1] {
        FakeTransport transport;
        const auto calls = Begin(transport);
        RandomStream(*calls, transport, seed).Run();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_TRUE(admission_.WaitUntilEmpty(absl::InfiniteDuration()));
  EXPECT_EQ(admission_.bytes(), 0);
  EXPECT_EQ(batcher_.depth(), 0);
  EXPECT_EQ(batcher_.running(), 0);
}

}  // namespace
}  // namespace attn
