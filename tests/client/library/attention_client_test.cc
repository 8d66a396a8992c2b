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
#include "client/library/gradients.h"
#include "client/library/host_tensor.h"
#include "client/library/inspection.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
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

TEST_F(AttentionClientTest, InspectGivesTheViewsThatWereNamed) {
  const UniformCall call(4, 2);
  InspectMessage message;
  const AttendMessage attend = call.Message();
  static_cast<CallMessage&>(message) = static_cast<const CallMessage&>(attend);
  ASSERT_TRUE(WantView("weights", message.question.views).ok());
  message.question.window.mutable_query()->set_begin(3);
  const auto result = Client().Inspect(message);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto weights = ViewOf(*result, "weights");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->shape(), Shape({1, 1, 1, 4}));
  EXPECT_NEAR(weights->At(2), 0.25, 1e-6);
  EXPECT_EQ(ViewOf(*result, "logits").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(result->header.head_statistics_size(), 1);
}

TEST_F(AttentionClientTest, AViewThatIsNotThereIsNamed) {
  InspectViews views;
  EXPECT_THAT(WantView("entropy", views).message(),
              HasSubstr("gradient_weight"));
  EXPECT_FALSE(views.any());
  for (const std::string& name : ViewNames()) {
    EXPECT_TRUE(WantView(name, views).ok());
  }
  EXPECT_TRUE(views.logits && views.masked_logits && views.weights &&
              views.contribution && views.gradient_weight);
}

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

// One tensor [B, S, 3, H, D], here [1, 2, 3, 2, 1]: q = 0, so that the output
// is the mean over the sequence of each head's v.
TEST_F(AttentionClientTest, PackedTensorsGiveTheOutputBySequence) {
  HostTensor qkv(DType::kF32, {1, 2, 3, 2, 1});
  const double values[2][2] = {{1, 10}, {3, 30}};
  for (int64_t s = 0; s < 2; ++s) {
    for (int64_t h = 0; h < 2; ++h) qkv.Set(s * 6 + 4 + h, values[s][h]);
  }
  AttendMessage message;
  message.qkv = qkv.view();
  message.wanted.output = true;
  const auto result = Client().Attend(message);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto output = OutputOf(*result, "output");
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->shape(), (Shape{1, 2, 2, 1}));
  for (int64_t s = 0; s < 2; ++s) {
    EXPECT_FLOAT_EQ(static_cast<float>(output->At(2 * s)), 2);
    EXPECT_FLOAT_EQ(static_cast<float>(output->At(2 * s + 1)), 20);
  }
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

// Each of n keys has weight 1 / n, and every query's output counts 1: d_v = 1.
TEST_F(AttentionClientTest, AttendBackwardGivesTheGradients) {
  // The second are large enough to travel as borrowed slices.
  for (const int64_t tokens : {4, 512}) {
    auto call = std::make_unique<UniformCall>(tokens, 16);
    HostTensor ones(DType::kF32, call->v.shape());
    for (int64_t i = 0; i < ones.element_count(); ++i) ones.Set(i, 1);
    BackwardMessage message;
    static_cast<CallMessage&>(message) = call->Message();
    message.cotangents.output = ones.view();
    const auto result = Client().AttendBackward(message);
    call.reset();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(GradientNames(*result), ElementsAre("d_q", "d_k", "d_v"));
    const auto gradient = GradientOf(*result, "d_v");
    ASSERT_TRUE(gradient.ok()) << gradient.status();
    for (const float x : gradient->values<float>()) EXPECT_NEAR(x, 1, 1e-5);
    EXPECT_TRUE(absl::IsNotFound(GradientOf(*result, "d_input_0").status()));
  }
}

TEST_F(AttentionClientTest, AnAsynchronousBackwardCallCopiesItsTensors) {
  std::promise<absl::StatusOr<BackwardResult>> promise;
  auto call = std::make_unique<UniformCall>(512, 16);
  BackwardMessage message;
  static_cast<CallMessage&>(message) = call->Message();
  message.cotangents.output = call->v.view();
  message.wanted.v = true;
  Client().AttendBackwardAsync(message, {},
                               [&](absl::StatusOr<BackwardResult> result) {
                                 promise.set_value(std::move(result));
                               });
  call.reset();
  const auto result = promise.get_future().get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(GradientNames(*result), ElementsAre("d_v"));
  EXPECT_NEAR(GradientOf(*result, "d_v")->At(0), UniformCall::Mean(512), 1e-3);
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
