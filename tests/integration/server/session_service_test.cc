// SessionService with a clock that does something at a chosen moment.
#include "server/rpc/session_service.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/session_client.h"
#include "tests/server/rpc/call_fixture.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr TestShape kServiceShape = {.batch = 1,
                                     .q_heads = 2,
                                     .kv_heads = 2,
                                     .q_length = 8,
                                     .kv_length = 8,
                                     .dim = 4};

class HookedClock : public Clock {
 public:
  // Called by whoever asks for the time next.
  void Once(std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  absl::Time Now() const override {
    std::function<void()> hook;
    {
      const std::lock_guard lock(mutex_);
      hook.swap(hook_);
    }
    if (hook != nullptr) hook();
    return Monotonic().Now();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::function<void()> hook_;
};

class CountedMetrics : public NullMetrics {
 public:
  void RequestStarted() override { ++open; }
  void RequestEnded(std::string_view, std::string_view, int, double) override {
    --open;
  }
  std::atomic<int> open = 0;
};

class SessionServiceTest : public CallFixture {
 protected:
  SessionServiceTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    grpc_server_ = builder.BuildAndStart();
    stub_ = wire::SessionService::NewStub(
        RunningServer::Connect("127.0.0.1:" + std::to_string(port)));
  }
  ~SessionServiceTest() override {
    service_.EndStreams();
    grpc_server_->Shutdown();
  }

  grpc::Status Open(wire::OpenSessionResponse& response) {
    grpc::ClientContext context;
    return stub_->OpenSession(&context, OpenFor(kServiceShape, CausalSpec()),
                              &response);
  }
  wire::StepStreamRequest StepOf(const wire::OpenSessionResponse& session,
                                 int64_t number) const {
    wire::StepStreamRequest request;
    request.mutable_step()->set_session_id(session.session_id());
    request.mutable_step()->set_epoch(session.epoch());
    request.mutable_step()->set_step(static_cast<uint64_t>(number));
    request.mutable_step()->set_position(number);
    tokens_.AddTo(*request.mutable_step(), number, 1);
    return request;
  }
  uint64_t NextStep(const std::string& id) {
    grpc::ClientContext context;
    wire::GetSessionRequest request;
    request.set_session_id(id);
    wire::GetSessionResponse response;
    EXPECT_TRUE(stub_->GetSession(&context, request, &response).ok());
    return response.session().next_step();
  }

  const SequenceTokens tokens_{kServiceShape, 1};
  HookedClock call_clock_;
  HookedClock store_clock_;
  CountedMetrics counted_;
  CallObserver counting_{{}, counted_, log_};
  SessionStore store_{{}, store_clock_};
  const CallContext calls_{.engine = engine_,
                           .admission = admission_,
                           .batcher = batcher_,
                           .observer = counting_,
                           .clock = call_clock_,
                           .max_message_bytes = 1 << 20,
                           .sessions = &store_};
  const CallerReader callers_{clock_, absl::Minutes(1)};
  ReplyWatch replies_{clock_, absl::Minutes(1)};
  const SessionServiceContext sessions_{.calls = calls_,
                                        .callers = callers_,
                                        .replies = replies_,
                                        .short_calls = {.observer = counting_,
                                                        .clock = clock_,
                                                        .callers = callers_,
                                                        .replies = replies_},
                                        .owner = "",
                                        .idle_timeout = absl::Minutes(10)};
  SessionService service_{sessions_};
  std::unique_ptr<grpc::Server> grpc_server_;
  std::unique_ptr<wire::SessionService::Stub> stub_;
};

// The end came when the step had been read and was not yet known as a step: it
// was made, and its answer written to a stream that was over.
TEST_F(SessionServiceTest, AStreamThatEndsWhileAStepArrivesAnswersItFirst) {
  wire::OpenSessionResponse session;
  ASSERT_TRUE(Open(session).ok());
  grpc::ClientContext context;
  const auto stream = stub_->StepStream(&context);
  wire::StepStreamResponse answer;
  ASSERT_TRUE(stream->Write(StepOf(session, 0)));
  ASSERT_TRUE(stream->Read(&answer));
  // A job that is made asks for the time first of all.
  call_clock_.Once([this] { service_.EndStreams(); });
  ASSERT_TRUE(stream->Write(StepOf(session, 1)));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.response().step(), 1U) << answer.DebugString();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(NextStep(session.session_id()), 2U);
}

TEST_F(SessionServiceTest, AStreamThatIsEndedMakesNoMoreSteps) {
  wire::OpenSessionResponse session;
  ASSERT_TRUE(Open(session).ok());
  grpc::ClientContext context;
  const auto stream = stub_->StepStream(&context);
  wire::StepStreamResponse answer;
  ASSERT_TRUE(stream->Write(StepOf(session, 0)));
  ASSERT_TRUE(stream->Read(&answer));
  service_.EndStreams();
  stream->Write(StepOf(session, 1));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(NextStep(session.session_id()), 1U);
}

TEST_F(SessionServiceTest, AShortCallWithoutMemoryIsRefusedAndEnds) {
  wire::OpenSessionResponse session;
  store_clock_.Once([] { throw std::bad_alloc(); });
  const grpc::Status refused = Open(session);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));
  ASSERT_TRUE(Open(session).ok());
  store_clock_.Once([] { throw std::bad_alloc(); });
  grpc::ClientContext context;
  wire::RollbackRequest request;
  request.set_session_id(session.session_id());
  request.set_epoch(session.epoch());
  wire::RollbackResponse response;
  EXPECT_EQ(stub_->Rollback(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(NextStep(session.session_id()), 0U);
  EXPECT_EQ(counted_.open, 0);
}

}  // namespace
}  // namespace attn
