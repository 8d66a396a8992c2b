#include "client/library/attention_client.h"

#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/library/call_status.h"
#include "client/library/host_tensor.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// A server on a port of its own, and a client of it.
class AttentionClientTest : public ::testing::Test {
 protected:
  AttentionClientTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 2;
    auto server = Server::Start(options, log_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~AttentionClientTest() override { server_->Hurry(); }

  AttentionClient Client() const {
    return *AttentionClient::Connect({.address = server_->grpc_addresses()[0]});
  }

  LineLog log_;
  std::unique_ptr<Server> server_;
};

// q = 0: every key weighs the same, so the output is the mean of v.
struct UniformCall {
  HostTensor q;
  HostTensor k;
  HostTensor v;

  UniformCall(int64_t tokens, int64_t width)
      : q(DType::kF32, {1, 1, tokens, width}),
        k(DType::kF32, {1, 1, tokens, width}),
        v(DType::kF32, {1, 1, tokens, width}) {
    for (int64_t i = 0; i < v.element_count(); ++i) {
      v.Set(i, static_cast<double>(i / width));
    }
  }
  AttendMessage Message() const {
    AttendMessage message;
    message.args.q = q.view();
    message.args.k = k.view();
    message.args.v = v.view();
    message.wanted.output = true;
    return message;
  }
  static double Mean(int64_t tokens) {
    return static_cast<double>(tokens - 1) / 2;
  }
};

TEST_F(AttentionClientTest, AttendGivesTheOutput) {
  const UniformCall call(4, 2);
  const auto result = Client().Attend(call.Message());
  ASSERT_TRUE(result.ok()) << result.status();
  const auto output = OutputOf(*result, "output");
  ASSERT_TRUE(output.ok()) << output.status();
  for (const float x : output->values<float>()) {
    EXPECT_FLOAT_EQ(x, static_cast<float>(UniformCall::Mean(4)));
  }
  EXPECT_TRUE(absl::IsNotFound(OutputOf(*result, "weights").status()));
}

// Large enough that the tensors travel as borrowed slices.
TEST_F(AttentionClientTest, LargeTensorsAreFreeOnceACallReturns) {
  const AttentionClient client = Client();
  for (int i = 0; i < 3; ++i) {
    auto call = std::make_unique<UniformCall>(512, 64);
    const AttendMessage message = call->Message();
    const auto result = client.Attend(message);
    call.reset();  // The sanitizers see a reader that is still there.
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(OutputOf(*result, "output")->At(0), UniformCall::Mean(512),
                1e-3);
  }
}

TEST_F(AttentionClientTest, ACallPastItsDeadlineAlsoFreesItsTensors) {
  const AttentionClient client = Client();
  auto call = std::make_unique<UniformCall>(4096, 64);
  const auto result =
      client.Attend(call->Message(), {.deadline = absl::Microseconds(100)});
  call.reset();
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
}

TEST_F(AttentionClientTest, ManyThreadsShareOneClient) {
  const AttentionClient client = Client();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&client, &good, t] {
      const UniformCall call(8 * t, 4);
      for (int i = 0; i < 10; ++i) {
        const auto result = client.Attend(call.Message());
        if (result.ok() && std::abs(OutputOf(*result, "output")->At(0) -
                                    UniformCall::Mean(8 * t)) < 1e-4) {
          ++good;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

TEST_F(AttentionClientTest, AnAsynchronousCallCopiesItsTensors) {
  std::promise<absl::StatusOr<AttendResult>> promise;
  auto call = std::make_unique<UniformCall>(512, 64);
  Client().AttendAsync(call->Message(), {},
                       [&promise](absl::StatusOr<AttendResult> result) {
                         promise.set_value(std::move(result));
                       });
  call.reset();
  const auto result = promise.get_future().get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(OutputOf(*result, "output")->At(0), UniformCall::Mean(512), 1e-3);
}

TEST_F(AttentionClientTest, OneEncodedRequestIsSentAgainAndAgain) {
  const auto channel =
      RawChannel::Create({.address = server_->grpc_addresses()[0]});
  ASSERT_TRUE(channel.ok()) << channel.status();
  const grpc::ByteBuffer request = EncodeRequest(UniformCall(64, 64).Message());
  for (int i = 0; i < 3; ++i) {
    const auto response = channel->Call(kAttendMethod, request, {});
    ASSERT_TRUE(response.ok()) << response.status();
    const auto result = DecodeResponse(*response);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(OutputOf(*result, "output")->At(0), UniformCall::Mean(64),
                1e-4);
  }
}

TEST_F(AttentionClientTest, AnErrorNamesTheFieldThatTheServerNamed) {
  const UniformCall call(4, 2);
  AttendMessage message = call.Message();
  message.spec.temperatures = {-1};
  const auto result = Client().Attend(message);
  ASSERT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  EXPECT_EQ(FieldOf(result.status()), "spec.temperatures[0]");
}

TEST_F(AttentionClientTest, PlanLooksAtNoData) {
  AttendMessage message;
  const Shape shape{1, 2, 16, 8};
  message.args.q = TensorView::Dense(nullptr, DType::kF32, shape);
  message.args.k = message.args.q;
  message.args.v = message.args.q;
  message.wanted.output = true;
  const auto plan = Client().Plan(message);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_DOUBLE_EQ(plan->effective_scale(), 1 / std::sqrt(8.0));
  EXPECT_FALSE(plan->kernel().empty());
}

TEST_F(AttentionClientTest, InfoAndHealthAnswer) {
  const auto info = Client().GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_GT(info->limits().max_message_bytes(), 0);
  EXPECT_TRUE(Client().Health().ok());
  EXPECT_TRUE(Client().Health("attention.v1.AttentionService").ok());
  EXPECT_FALSE(Client().Health("no.such.Service").ok());
}

TEST_F(AttentionClientTest, AServerThatIsNotThereIsNamedWithARemedy) {
  const std::string address = server_->grpc_addresses()[0];
  const AttentionClient client = Client();
  ASSERT_TRUE(client.Health().ok());
  server_->Hurry();
  server_->Stop();
  for (const absl::Status& status :
       {client.Health(), client.Attend(UniformCall(4, 2).Message()).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(IsUnreachable(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(address));
    EXPECT_THAT(status.ToString(), HasSubstr("start attn-server"));
  }
}

TEST(ConnectTest, RefusesAddressesThatCannotBeMeant) {
  for (const char* address :
       {"", "localhost", "localhost:", ":8001", "localhost:0",
        "localhost:65536", "localhost:http", "unix:"}) {
    const auto client = AttentionClient::Connect({.address = address});
    EXPECT_TRUE(absl::IsInvalidArgument(client.status())) << address;
    EXPECT_EQ(FieldOf(client.status()), "address") << address;
  }
  EXPECT_TRUE(AttentionClient::Connect({.address = "[::1]:8001"}).ok());
  EXPECT_TRUE(AttentionClient::Connect({.address = "unix:/run/a.sock"}).ok());
}

TEST(ConnectTest, RefusesOptionsThatCannotBeMeant) {
  EXPECT_FALSE(
      AttentionClient::Connect({.deadline = absl::ZeroDuration()}).ok());
  EXPECT_FALSE(AttentionClient::Connect({.max_response_bytes = 0}).ok());
  EXPECT_FALSE(AttentionClient::Connect({.keepalive = absl::Seconds(1)}).ok());
}

}  // namespace
}  // namespace attn
