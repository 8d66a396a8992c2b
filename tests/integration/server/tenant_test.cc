// Quotas of tenants, side by side.
#include <memory>
#include <string>
#include <thread>

#include "attention/v1/layer.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/secure_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const TestCaller kAlice = {.authorization = "Bearer wonderland"};
const TestCaller kBob = {.authorization = "Bearer builder"};

// A call of a tenant's that runs until it is cancelled.
class LongCall {
 public:
  LongCall(const SecureServer& server, const TestCaller& caller)
      : stub_(wire::AttentionService::NewStub(server.Connect(caller))) {
    context_.AddMetadata("authorization", caller.authorization);
    thread_ = std::thread([this] {
      wire::AttendResponse response;
      stub_->Attend(&context_, SlowRequest(), &response).ok();
    });
  }
  ~LongCall() { Cancel(); }
  LongCall(const LongCall&) = delete;
  LongCall& operator=(const LongCall&) = delete;

  void Cancel() {
    context_.TryCancel();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::unique_ptr<wire::AttentionService::Stub> stub_;
  grpc::ClientContext context_;
  std::thread thread_;
};

// Calls until the answer has the wanted code, for a minute; the last answer.
grpc::Status AttendUntil(const SecureServer& server, const TestCaller& caller,
                         grpc::StatusCode code) {
  grpc::Status status;
  Becomes([&] {
    status = server.Attend(caller);
    return status.error_code() == code;
  });
  return status;
}

class TenantTest : public ::testing::Test {
 protected:
  TenantTest() : options_(SecureServer::Options()) {}

  SecureServer server_;
  ServerOptions options_;
};

TEST_F(TenantTest, OneAtItsQuotaDoesNotDisturbTheOther) {
  options_.metrics_address = "127.0.0.1:0";
  server_.UseTokens(options_, "alice wonderland max-requests=1\nbob builder\n");
  server_.Start(options_);
  LongCall inside(server_, kAlice);
  const grpc::Status refused =
      AttendUntil(server_, kAlice, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              AllOf(HasSubstr("tenant \"alice\" has 1 requests"),
                    HasSubstr("max-requests=1")));
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));
  EXPECT_GE(server_.RejectionsReaching("tenant_quota", 1), 1);
  EXPECT_TRUE(server_.Attend(kBob).ok());
  inside.Cancel();
  EXPECT_TRUE(AttendUntil(server_, kAlice, grpc::StatusCode::OK).ok());
}

TEST_F(TenantTest, ADefaultQuotaIsEachTenantsOwn) {
  options_.tenant_max_requests = 1;
  server_.UseTokens(options_,
                    "alice wonderland\nbob builder\ncarol c max-requests=0\n");
  server_.Start(options_);
  LongCall inside(server_, kAlice);
  EXPECT_EQ(AttendUntil(server_, kAlice, grpc::StatusCode::RESOURCE_EXHAUSTED)
                .error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(server_.Attend(kBob).ok());
}

TEST_F(TenantTest, TheAnonymousTenantHasTheDefaultQuotaToo) {
  options_.tenant_max_inflight_bytes = 100;
  server_.Start(options_);
  const grpc::Status status = server_.Attend({});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("the anonymous tenant"),
                    HasSubstr("max-inflight-bytes=100")));
}

TEST_F(TenantTest, BytesCountRequestResponseAndScratch) {
  // The request alone would fit.
  const wire::AttendRequest request = RandomRequest({}, 1);
  options_.tenant_max_inflight_bytes =
      static_cast<int64_t>(request.ByteSizeLong()) + 1;
  server_.Start(options_);
  EXPECT_EQ(server_.Attend({}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(TenantTest, AQuotaOfBytesHoldsForLayersToo) {
  server_.UseTokens(options_,
                    "alice wonderland max-inflight-bytes=64\n"
                    "bob builder\n");
  server_.Start(options_);
  wire::PutLayerRequest request;
  request.set_name("layer");
  wire::NamedTensor& tensor = *request.add_tensors();
  tensor.set_name("w");
  *tensor.mutable_tensor() = FloatTensor({8, 8}, RandomFloats(64, 1));
  for (const auto& [caller, code] :
       {std::pair(kAlice, grpc::StatusCode::RESOURCE_EXHAUSTED),
        std::pair(kBob, grpc::StatusCode::OK)}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", caller.authorization);
    wire::PutLayerResponse response;
    const grpc::Status status =
        wire::LayerService::NewStub(server_.Connect(caller))
            ->PutLayer(&context, request, &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
  }
}

}  // namespace
}  // namespace attn
