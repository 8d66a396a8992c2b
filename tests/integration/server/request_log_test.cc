// The log of a server: one line for each request, whatever becomes of it, and
// nothing of its tensors.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
// What every tensor is filled with, over and over: floats of about 7e28.
constexpr char kPayload[] = "do-not-log-this!";

// Keeps the lines of requests. Thread-safe.
class RequestLines {
 public:
  LineLog::Sink Sink() {
    return [this](const std::string& line) {
      if (line.find(" request id=") == std::string::npos) return;
      MutexLock lock(mutex_);
      lines_.push_back(line);
    };
  }
  // The lines so far, when there are `count` at least; empty ones stand for
  // those that do not come within a minute.
  std::vector<std::string> Await(size_t count) {
    std::vector<std::string> lines;
    if (!Becomes([&] {
          MutexLock lock(mutex_);
          lines = lines_;
          return lines.size() >= count;
        })) {
      ADD_FAILURE() << lines.size() << " lines of " << count;
      lines.resize(count);
    }
    return lines;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ATTN_GUARDED_BY(mutex_);
};

void Fill(wire::Tensor* tensor) {
  std::string* data = tensor->mutable_data();
  for (size_t i = 0; i < data->size(); ++i) {
    (*data)[i] = kPayload[i % (sizeof(kPayload) - 1)];
  }
}

wire::AttendRequest Marked(wire::AttendRequest request) {
  Fill(request.mutable_q());
  Fill(request.mutable_k());
  Fill(request.mutable_v());
  request.set_request_id("marked");
  return request;
}

class RequestLog : public ::testing::Test {
 protected:
  static ServerOptions Options() {
    ServerOptions options = TestOptionsWithMetrics();
    options.max_message_bytes = int64_t{16} << 20;
    options.max_concurrent_requests = 1;
    options.max_queue_size = 1;
    return options;
  }

  std::unique_ptr<PendingCall> Start(const wire::AttendRequest& request) {
    auto call = std::make_unique<PendingCall>(server_.Connect(), kAttendPath,
                                              ToRequest(request));
    call->context().AddMetadata(
        "traceparent", std::string("00-") + kTrace + "-00f067aa0ba902b7-01");
    call->Start();
    return call;
  }
  grpc::StatusCode Call(const wire::AttendRequest& request) {
    return Start(request)->Wait().error_code();
  }
  // Until the first call computes.
  static void AwaitStart(const RunningServer& server) {
    EXPECT_EQ(server.MetricReaching("attn_batch_requests_count", 1), 1);
  }
  // The one line that the calls since `before` lines have left.
  void ExpectOneLine(size_t before, const std::string& code) {
    const std::vector<std::string> lines = lines_.Await(before + 1);
    ASSERT_EQ(lines.size(), before + 1);
    EXPECT_THAT(lines.back(),
                AllOf(HasSubstr("method=\"Attend\""), HasSubstr(" id=\""),
                      HasSubstr("code=\"" + code + "\""),
                      HasSubstr("trace=\"" + std::string(kTrace) + "\""),
                      HasSubstr(" total_us="), HasSubstr(" queue_us="),
                      HasSubstr(" compute_us="), Not(HasSubstr("not-log")),
                      Not(HasSubstr("e+28"))));
  }

  RequestLines lines_;
  RunningServer server_{Options(), lines_.Sink()};
};

TEST_F(RequestLog, AServedCallLeavesOneLineWithItsKernelAndShape) {
  EXPECT_EQ(Call(Marked(RandomRequest({}, 1))), grpc::StatusCode::OK);
  ExpectOneLine(0, "OK");
  EXPECT_THAT(lines_.Await(1).back(),
              AllOf(HasSubstr("id=\"marked\""), HasSubstr("shape=\"q[1, 2, 5"),
                    Not(HasSubstr("kernel=\"\""))));
}

TEST_F(RequestLog, RefusedCallsLeaveOneLineEach) {
  wire::AttendRequest unfitting = Marked(RandomRequest({}, 1));
  unfitting.mutable_k()->mutable_shape()->Set(3, 9);
  EXPECT_EQ(Call(unfitting), grpc::StatusCode::INVALID_ARGUMENT);
  ExpectOneLine(0, "INVALID_ARGUMENT");

  wire::AttendRequest too_long =
      Marked(RandomRequest({.q_heads = 8, .q_length = 8192, .dim = 64}, 1));
  EXPECT_EQ(Call(too_long), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectOneLine(1, "RESOURCE_EXHAUSTED");
}

TEST_F(RequestLog, ACancelledCallAndOneThatItKeptOutLeaveOneLineEach) {
  const auto slow = Start(Marked(SlowRequest()));
  AwaitStart(server_);
  EXPECT_EQ(Call(Marked(RandomRequest({}, 1))),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectOneLine(0, "RESOURCE_EXHAUSTED");
  slow->Cancel();
  EXPECT_EQ(slow->Wait().error_code(), grpc::StatusCode::CANCELLED);
  ExpectOneLine(1, "CANCELLED");
}

TEST_F(RequestLog, ALateCallLeavesOneLine) {
  ServerOptions options = Options();
  options.default_timeout = absl::Milliseconds(50);
  RequestLines lines;
  RunningServer server(options, lines.Sink());
  wire::AttendResponse response;
  EXPECT_EQ(server.Attend(Marked(SlowRequest()), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(lines.Await(1),
              ElementsAre(HasSubstr("code=\"DEADLINE_EXCEEDED\"")));
}

TEST_F(RequestLog, CallsThatComputeNothingLeaveOneLineEach) {
  grpc::ClientContext info_context;
  wire::GetServerInfoResponse info;
  EXPECT_TRUE(server_.stub().GetServerInfo(&info_context, {}, &info).ok());
  grpc::ClientContext plan_context;
  wire::PlanResponse plan;
  EXPECT_FALSE(server_.stub().Plan(&plan_context, {}, &plan).ok());
  EXPECT_THAT(lines_.Await(2),
              ElementsAre(AllOf(HasSubstr("method=\"GetServerInfo\""),
                                HasSubstr("code=\"OK\"")),
                          AllOf(HasSubstr("method=\"Plan\""),
                                HasSubstr("code=\"INVALID_ARGUMENT\""))));
}

TEST_F(RequestLog, CallsAfterTheGateHasClosedLeaveOneLineEach) {
  ServerOptions options = Options();
  options.drain_delay = absl::ZeroDuration();
  RequestLines lines;
  RunningServer server(options, lines.Sink());
  PendingCall inside(server.Connect(), kAttendPath,
                     ToRequest(Marked(SlowRequest())));
  inside.Start();
  AwaitStart(server);
  std::thread stop([&server] { server.Stop(); });
  wire::AttendResponse response;
  size_t tried = 0;
  grpc::StatusCode code;
  do {
    code = server.Attend(RandomRequest({}, 1), &response).error_code();
    ++tried;
  } while (code == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(lines.Await(tried),
              Contains(AllOf(HasSubstr("code=\"UNAVAILABLE\""),
                             HasSubstr("stopping"))));
  inside.Cancel();
  stop.join();
  EXPECT_EQ(lines.Await(tried + 1).size(), tried + 1);
}

}  // namespace
}  // namespace attn
