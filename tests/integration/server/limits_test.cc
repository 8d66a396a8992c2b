// What the server refuses, and what cancelled calls leave behind.
#include <chrono>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A call that runs until it is cancelled.
class SlowCall {
 public:
  explicit SlowCall(RunningServer& server)
      : stub_(wire::AttentionService::NewStub(
            RunningServer::Connect(server.address()))),
        thread_([this] {
          wire::AttendResponse response;
          status_ = stub_->Attend(&context_, SlowRequest(), &response);
        }) {}
  ~SlowCall() { Cancel(); }

  const grpc::Status& Cancel() {
    context_.TryCancel();
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  std::unique_ptr<wire::AttentionService::Stub> stub_;
  grpc::ClientContext context_;
  grpc::Status status_;
  std::thread thread_;
};

// Calls until the answer has the wanted code; the last answer.
grpc::Status CallUntil(RunningServer& server, grpc::StatusCode code) {
  grpc::Status status;
  do {
    wire::AttendResponse response;
    status = server.Attend(RandomRequest({}, 4), &response);
  } while (status.error_code() != code);
  return status;
}

TEST(Limits, TooManyRequestsAreRefusedWithARetryDelay) {
  ServerOptions options = TestOptionsWithMetrics();
  options.max_concurrent_requests = 1;
  options.max_queue_size = 1;
  RunningServer server(options);
  SlowCall slow(server);
  const grpc::Status refused =
      CallUntil(server, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("--max-concurrent-requests=1"));
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));
  slow.Cancel();
  EXPECT_GE(server.MetricReaching(
                "attn_requests_rejected_total{reason=\"queue_full\"}", 1),
            1);
}

TEST(Limits, ACancelledCallFreesItsPlace) {
  ServerOptions options = TestOptions();
  options.max_concurrent_requests = 1;
  options.max_queue_size = 1;
  RunningServer server(options);
  SlowCall slow(server);
  CallUntil(server, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(slow.Cancel().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(CallUntil(server, grpc::StatusCode::OK).ok());
}

TEST(Limits, ACallPastItsDeadlineFreesItsPlace) {
  ServerOptions options = TestOptions();
  options.max_concurrent_requests = 1;
  options.max_queue_size = 1;
  RunningServer server(options);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(100));
  wire::AttendResponse response;
  const grpc::Status late =
      server.stub().Attend(&context, SlowRequest(), &response);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(CallUntil(server, grpc::StatusCode::OK).ok());
}

TEST(Limits, TheDefaultTimeoutEndsACallWithoutADeadline) {
  ServerOptions options = TestOptions();
  options.default_timeout = absl::Milliseconds(50);
  RunningServer server(options);
  wire::AttendResponse response;
  const grpc::Status late = server.Attend(SlowRequest(), &response);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(Limits, ATinyCallIsServedWhileALargeOneRuns) {
  ServerOptions options = TestOptions();
  options.compute_threads = 1;
  options.max_batch_tokens = 1024;
  RunningServer server(options);
  SlowCall slow(server);
  wire::AttendResponse response;
  EXPECT_TRUE(server.Attend(RandomRequest({}, 4), &response).ok());
  EXPECT_EQ(slow.Cancel().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(Limits, HealthIsAnsweredWhileEveryWorkerIsBusy) {
  constexpr int kChecks = 100;
  ServerOptions options = TestOptions();
  options.compute_threads = 1;
  options.max_concurrent_requests = 1;
  options.max_queue_size = 1;
  RunningServer server(options);
  SlowCall slow(server);
  CallUntil(server, grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto channel = server.Connect();
  for (int i = 0; i < kChecks; ++i) {
    EXPECT_EQ(HealthOf(channel, "attention.v1.AttentionService"), "SERVING");
  }
  // It ran all the time.
  EXPECT_EQ(slow.Cancel().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(Limits, ARequestThatIsTooLongIsToldBothNumbersAndTheFlag) {
  ServerOptions options = TestOptions();
  options.max_message_bytes = 10000;
  RunningServer server(options);
  const wire::AttendRequest request =
      RandomRequest({.kv_length = 200, .dim = 64}, 4);
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr(std::to_string(request.ByteSizeLong())),
                    HasSubstr("--max-message-bytes=10000")));
}

// Parsed, it would take some 30 times as much memory, which nothing counts.
TEST(Limits, AMethodThatTakesNoTensorsReadsNoLongRequest) {
  RunningServer server;
  const auto channel = server.Connect();
  // Empty fields that no message has.
  std::string request;
  while (request.size() < size_t{8} << 20)
    request += std::string("\x7a\x00", 2);
  for (const char* method :
       {"attention.v1.AttentionService/GetServerInfo",
        "attention.v1.AttentionService/Plan",
        "attention.v1.LayerService/GetLayer",
        "attention.v1.LayerService/ListLayers",
        "attention.v1.LayerService/DeleteLayer",
        "inference.GRPCInferenceService/ServerLive",
        "inference.GRPCInferenceService/ServerReady",
        "inference.GRPCInferenceService/ModelReady",
        "inference.GRPCInferenceService/ServerMetadata",
        "inference.GRPCInferenceService/ModelMetadata",
        "inference.GRPCInferenceService/RepositoryIndex"}) {
    SCOPED_TRACE(method);
    std::string response;
    const grpc::Status status =
        RawUnary(channel, std::string("/") + method, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(),
                HasSubstr("a request without payloads of 8388608 bytes"));
  }
}

TEST(Limits, AResponseThatIsTooLongIsRefusedBeforeItIsComputed) {
  ServerOptions options = TestOptionsWithMetrics();
  options.max_message_bytes = 100000;
  RunningServer server(options);
  wire::AttendRequest request =
      RandomRequest({.q_length = 200, .kv_length = 200, .dim = 2}, 4);
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("a response of"),
                    HasSubstr("--max-message-bytes=100000")));
  EXPECT_EQ(server.MetricReaching("attn_requests_rejected_total"
                                  "{reason=\"too_large\"}",
                                  1),
            1);
}

TEST(Limits, ARequestBeyondTheByteBudgetIsRefused) {
  ServerOptions options = TestOptions();
  options.max_message_bytes = 400000;
  options.max_inflight_bytes = 400000;
  RunningServer server(options);
  wire::AttendRequest request =
      RandomRequest({.q_length = 200, .kv_length = 200, .dim = 16}, 4);
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  wire::AttendResponse response;
  const grpc::Status status = server.Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--max-inflight-bytes=400000"));
  EXPECT_TRUE(server.Attend(RandomRequest({}, 4), &response).ok());
}

}  // namespace
}  // namespace attn
