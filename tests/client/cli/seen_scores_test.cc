// What a figure is shown by a server that answers with other shapes than those
// of the question.
#include "client/cli/seen_scores.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/v1/attention.grpc.pb.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers every Inspect with the same views, of zeros.
class FixedViewsService final : public v1::AttentionService::Service {
 public:
  grpc::Status Inspect(grpc::ServerContext*, const v1::InspectRequest*,
                       v1::InspectResponse* response) override {
    SetZeros(logits, *response->mutable_logits());
    SetZeros(masked_logits, *response->mutable_masked_logits());
    SetZeros(weights, *response->mutable_weights());
    return grpc::Status::OK;
  }

  std::vector<int64_t> logits = {1, 1, 2, 3};
  std::vector<int64_t> masked_logits = {1, 1, 2, 3};
  std::vector<int64_t> weights = {1, 1, 2, 3};

 private:
  static void SetZeros(const std::vector<int64_t>& shape, v1::Tensor& tensor) {
    tensor.set_dtype(v1::DATA_TYPE_F32);
    size_t bytes = sizeof(float);
    for (const int64_t extent : shape) {
      tensor.add_shape(extent);
      bytes *= static_cast<size_t>(extent);
    }
    tensor.set_data(std::string(bytes, '\0'));
  }
};

class SeenScoresTest : public ::testing::Test {
 protected:
  SeenScoresTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
    message_.args.q = tensor_.view();
    message_.args.k = tensor_.view();
    message_.args.v = tensor_.view();
    question_.heads = {0};
    question_.query_count = 2;
    question_.key_count = 3;
  }
  ~SeenScoresTest() override { server_->Shutdown(); }

  absl::StatusOr<SeenScores> See() const {
    const auto client = AttentionClient::Connect({.address = address_});
    if (!client.ok()) return client.status();
    return SeeScores(*client, message_, question_);
  }

  FixedViewsService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  const HostTensor tensor_{DType::kF32, {1, 1, 3, 2}};
  CallMessage message_;
  ScoreQuestion question_;
};

TEST_F(SeenScoresTest, CellsAreThoseOfTheQuestion) {
  const auto seen = See();
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->heads[0].logits.size(), 6U);
  EXPECT_EQ(seen->heads[0].weights.size(), 6U);
  EXPECT_THAT(seen->heads[0].masked,
              ElementsAre(false, false, false, false, false, false));
}

// They were read beyond their ends.
TEST_F(SeenScoresTest, FewerCellsThanAskedForAreAnError) {
  service_.weights = {1, 1, 1, 1};
  EXPECT_THAT(See().status().ToString(),
              HasSubstr("the response's weights is [1, 1, 1, 1]"));
  service_.weights = {1, 1, 2, 3};
  service_.masked_logits = {1, 1, 3, 2};
  EXPECT_THAT(See().status().ToString(),
              HasSubstr("the response's masked_logits is"));
}

TEST_F(SeenScoresTest, TilesAreCountedWhereCellsArePooled) {
  question_.query_step = 2;
  question_.key_step = 2;
  EXPECT_FALSE(See().ok());
  service_.logits = {1, 1, 1, 2};
  EXPECT_FALSE(See().ok());
  service_.weights = {1, 1, 1, 2};
  const auto seen = See();
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->heads[0].masked.size(), 2U);
}

}  // namespace
}  // namespace attn
