#include "server/rpc/response_builder.h"

#include <limits>
#include <memory>

#include "engine/engine.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int64_t kHeads = 2;
constexpr int64_t kLength = 3;
constexpr int64_t kKeys = 5;
constexpr int64_t kDim = 4;

class ResponseBuilderTest : public ::testing::Test {
 protected:
  ResponseBuilder Make(const WantedOutputs& wanted, bool bshd = false) {
    AttendCall call;
    call.wanted = wanted;
    call.bshd = bshd;
    const Shape q = {1, kHeads, kLength, kDim};
    const Shape kv = {1, kHeads, kKeys, kDim};
    call.args.q = TensorView::Dense(nullptr, DType::kF32, q);
    call.args.k = TensorView::Dense(nullptr, DType::kF32, kv);
    call.args.v = TensorView::Dense(nullptr, DType::kF32, kv);
    const auto plan =
        engine_.Plan(call.spec, call.args, wanted.Selection(), DType::kF32);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return ResponseBuilder(**plan, call);
  }

  Engine engine_{{.workers = 1}};
};

TEST_F(ResponseBuilderTest, OnlyWhatIsWantedIsAllocated) {
  ResponseBuilder builder = Make({.lse = true, .weights = true});
  const AttentionOutputs outputs = builder.Allocate();
  EXPECT_FALSE(outputs.output.wanted());
  EXPECT_TRUE(outputs.lse.wanted());
  EXPECT_TRUE(outputs.weights.wanted());
  const auto tensors = builder.TakeTensors();
  ASSERT_EQ(tensors.size(), 2);
  EXPECT_EQ(tensors[0].field, ::attention::v1::AttendResponse::kLseFieldNumber);
  EXPECT_EQ(tensors[1].shape, Shape({1, kHeads, kLength, kKeys}));
}

TEST_F(ResponseBuilderTest, TheSizeCoversEveryTensor) {
  const int64_t without = Make({}).message_bytes();
  const int64_t with = Make({.weights = true}).message_bytes();
  EXPECT_EQ(with - without,
            kHeads * kLength * kKeys * static_cast<int64_t>(sizeof(float)));
}

TEST_F(ResponseBuilderTest, TheOutputTakesTheLayoutOfQ) {
  ResponseBuilder builder = Make({.output = true}, /*bshd=*/true);
  const AttentionOutputs outputs = builder.Allocate();
  // The engine sees [B, H, S, D] whatever the memory's order.
  EXPECT_EQ(outputs.output.shape, Shape({1, kHeads, kLength, kDim}));
  EXPECT_EQ(outputs.output.strides[1], kDim);
  EXPECT_EQ(builder.TakeTensors()[0].shape, Shape({1, kLength, kHeads, kDim}));
}

TEST_F(ResponseBuilderTest, StatisticsFollowTheRows) {
  std::vector<RowStatistics> rows(kHeads * kLength);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].visible_keys = kKeys;
    rows[i].top_key = static_cast<int64_t>(i);
    rows[i].entropy = 0.25;
    rows[i].peak_weight = i < kLength ? 0.5 : 1;
  }
  ::attention::v1::AttendResponse header;
  Make({.row_statistics = true, .head_statistics = true})
      .AddStatistics(rows, header);
  const auto& tensors = header.row_statistics();
  EXPECT_EQ(tensors.entropy().data().size(), rows.size() * sizeof(float));
  EXPECT_EQ(tensors.top_key().data().size(), rows.size() * sizeof(int64_t));
  EXPECT_EQ(tensors.top_key().data()[sizeof(int64_t)], 1);
  ASSERT_EQ(header.head_statistics_size(), kHeads);
  EXPECT_EQ(header.head_statistics(1).head(), 1);
  EXPECT_DOUBLE_EQ(header.head_statistics(0).mean_peak_weight(), 0.5);
  EXPECT_EQ(header.head_statistics(1).saturated_rows(), kLength);
}

}  // namespace
}  // namespace attn
