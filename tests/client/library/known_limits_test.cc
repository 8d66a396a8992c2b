// What a client asks of a server beside a large call, seen from a server that
// notes it.
#include "client/library/known_limits.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "attention/v1/attention.grpc.pb.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr milliseconds kAskingTime(1500);

// What is left for the call that comes in.
milliseconds Left(const grpc::ServerContext& context) {
  return std::chrono::duration_cast<milliseconds>(context.deadline() -
                                                  system_clock::now());
}

// Answers one call at a time, so its members need no lock.
class NotingService final : public v1::AttentionService::Service {
 public:
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    ++asked;
    std::this_thread::sleep_for(asking_time);
    response->mutable_limits()->set_max_message_bytes(int64_t{1} << 30);
    return grpc::Status::OK;
  }
  grpc::Status Attend(grpc::ServerContext* context, const v1::AttendRequest*,
                      v1::AttendResponse*) override {
    left = Left(*context);
    return {code, ""};
  }

  milliseconds asking_time{0};
  grpc::StatusCode code = grpc::StatusCode::OK;
  int asked = 0;
  milliseconds left{0};
};

class KnownLimitsTest : public ::testing::Test {
 protected:
  KnownLimitsTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
    message_.args.q = tensor_.view();
    message_.args.k = tensor_.view();
    message_.args.v = tensor_.view();
    message_.wanted.output = true;
  }
  ~KnownLimitsTest() override { server_->Shutdown(); }

  AttentionClient Client() const {
    return *AttentionClient::Connect(
        {.address = address_, .deadline = kDeadline});
  }

  NotingService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  // Three of them are more than the 16 MiB from which a client asks.
  const HostTensor tensor_{DType::kF32, {1, 1, 24000, 64}};
  AttendMessage message_;
};

TEST_F(KnownLimitsTest, AreAskedForOnce) {
  const AttentionClient client = Client();
  EXPECT_TRUE(client.Attend(message_).ok());
  EXPECT_TRUE(client.Attend(message_).ok());
  const AttentionClient copy = client;
  EXPECT_TRUE(copy.Attend(message_).ok());
  EXPECT_EQ(service_.asked, 1);
}

TEST_F(KnownLimitsTest, AreAskedForAgainAfterAFailure) {
  const AttentionClient client = Client();
  service_.code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  EXPECT_FALSE(client.Attend(message_).ok());
  service_.code = grpc::StatusCode::OK;
  EXPECT_TRUE(client.Attend(message_).ok());
  EXPECT_EQ(service_.asked, 2);
}

// However slow the machine is: less may be left, and never more.
TEST_F(KnownLimitsTest, AskingIsWithinTheCallsDeadline) {
  service_.asking_time = kAskingTime;
  EXPECT_TRUE(Client().Attend(message_).ok());
  EXPECT_EQ(service_.asked, 1);
  // gRPC rounds a timeout up, by a second at most.
  EXPECT_LE(service_.left, absl::ToChronoMilliseconds(kDeadline) - kAskingTime +
                               milliseconds(1000));
  EXPECT_GT(service_.left, milliseconds(0));
}

}  // namespace
}  // namespace attn
