#include "server/rpc/call_observer.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/refusal.h"

namespace attn {
namespace {

using ::testing::_;
using ::testing::NiceMock;
using ::testing::SizeIs;

class MockMetrics : public Metrics {
 public:
  MOCK_METHOD(void, RequestStarted, (), (override));
  MOCK_METHOD(void, RequestEnded,
              (std::string_view, std::string_view, int, double), (override));
  MOCK_METHOD(void, PhaseEnded, (Phase, double), (override));
  MOCK_METHOD(void, RequestRejected, (RejectReason), (override));
  MOCK_METHOD(void, BatchFormed, (int64_t, int64_t, int64_t), (override));
  MOCK_METHOD(void, BytesReceived, (int64_t), (override));
  MOCK_METHOD(void, BytesSent, (int64_t), (override));
  MOCK_METHOD(void, PayloadCopies, (int64_t), (override));
  MOCK_METHOD(void, ComputeDone, (double), (override));
  MOCK_METHOD(void, RowsObserved,
              (std::string_view, std::span<const ObservedRow>), (override));
  MOCK_METHOD(void, HeadsObserved,
              (std::string_view, std::span<const ObservedHead>), (override));
  MOCK_METHOD(void, DeadHeads, (DeadReason, int64_t), (override));
  MOCK_METHOD(void, FullyMaskedRows, (int64_t), (override));
  MOCK_METHOD(void, NonfiniteInputs, (InputTensor, int64_t), (override));
  MOCK_METHOD(void, NonfiniteOutputs, (int64_t), (override));
};

class CallObserverTest : public ::testing::Test {
 protected:
  CallObserverTest()
      : log_(LogFormat::kText, [this](const std::string&) { ++lines_; }) {}

  CallObserver Make(CallObserverOptions options) {
    return CallObserver(options, metrics_, log_);
  }

  NiceMock<MockMetrics> metrics_;
  int lines_ = 0;
  LineLog log_;
};

TEST_F(CallObserverTest, AServedCallIsCountedWithItsPhases) {
  CallRecord record;
  record.method = "Attend";
  record.variant = "dot_softmax";
  record.total = absl::Seconds(2);
  record.compute = absl::Seconds(1);
  record.nonfinite_k = 3;
  EXPECT_CALL(metrics_, RequestEnded("Attend", "dot_softmax", 0, 2.0));
  EXPECT_CALL(metrics_, PhaseEnded(_, _)).Times(3);
  EXPECT_CALL(metrics_, PhaseEnded(Phase::kCompute, 1.0));
  EXPECT_CALL(metrics_, NonfiniteInputs(_, 0)).Times(2);
  EXPECT_CALL(metrics_, NonfiniteInputs(InputTensor::kK, 3));
  EXPECT_CALL(metrics_, RequestRejected(_)).Times(0);
  Make({}).Ended(record);
  EXPECT_EQ(lines_, 1);
}

struct Rejection {
  absl::Status status;
  RejectReason reason;
};

TEST_F(CallObserverTest, EveryRefusalIsCountedUnderItsReason) {
  const std::vector<Rejection> rejections = {
      {Refuse(Refusal::kQueueFull, ""), RejectReason::kQueueFull},
      {Refuse(Refusal::kMemory, ""), RejectReason::kMemory},
      {Refuse(Refusal::kTooLarge, ""), RejectReason::kTooLarge},
      {Refuse(Refusal::kDraining, ""), RejectReason::kDraining},
      {Refuse(Refusal::kDeadlineExpired, ""), RejectReason::kDeadlineExpired},
      {Refuse(Refusal::kTenantQuota, ""), RejectReason::kTenantQuota},
      {absl::UnauthenticatedError(""), RejectReason::kUnauthenticated},
      {absl::InvalidArgumentError(""), RejectReason::kInvalid},
      {absl::CancelledError(""), RejectReason::kCancelled},
      {absl::DeadlineExceededError(""), RejectReason::kDeadlineExpired}};
  for (const Rejection& rejection : rejections) {
    EXPECT_CALL(metrics_, RequestRejected(rejection.reason));
    CallRecord record;
    record.status = rejection.status;
    Make({}).Ended(record);
    ::testing::Mock::VerifyAndClearExpectations(&metrics_);
  }
}

TEST_F(CallObserverTest, TheLogCanBeTurnedOff) {
  Make({.log_requests = false}).Ended({});
  EXPECT_EQ(lines_, 0);
}

TEST_F(CallObserverTest, ACallIsCountedUnderItsNumberOfTheStatus) {
  // Of CANCELLED, in gRPC's list.
  constexpr int kCancelled = 1;
  CallRecord record;
  record.method = "Plan";
  record.status = absl::CancelledError("");
  EXPECT_CALL(metrics_, RequestEnded("Plan", kNoVariant, kCancelled, _));
  Make({}).Ended(record);
}

// Rows that see four keys and are spread over two of them.
std::vector<RowStatistics> MixingRows(size_t count) {
  RowStatistics row;
  row.visible_keys = 4;
  row.entropy = std::log(2.0);
  row.peak_weight = 0.5;
  row.lse = 1;
  row.logit_max = 1;
  return std::vector<RowStatistics>(count, row);
}

ComputedRows TwoHeads(const std::vector<RowStatistics>& rows) {
  ComputedRows computed;
  computed.variant = "v";
  computed.rows = rows;
  computed.heads = 2;
  computed.length = static_cast<int64_t>(rows.size()) / 2;
  return computed;
}

TEST_F(CallObserverTest, RowsAreToldOfTheVariantAndOfNoLayer) {
  EXPECT_CALL(metrics_, RowsObserved("v", SizeIs(2)));
  EXPECT_CALL(metrics_, HeadsObserved(_, _)).Times(0);
  EXPECT_CALL(metrics_, DeadHeads(_, _)).Times(0);
  const std::vector<RowStatistics> rows = MixingRows(2);
  Make({.entropy_sample_rate = 1}).RowsComputed(TwoHeads(rows));
}

TEST_F(CallObserverTest, ACallThatTakesALayerIsToldOfByHeadToo) {
  EXPECT_CALL(metrics_, RowsObserved("v", _));
  EXPECT_CALL(metrics_, HeadsObserved("l", SizeIs(2)));
  const std::vector<RowStatistics> rows = MixingRows(6);
  ComputedRows computed = TwoHeads(rows);
  computed.layer = "l";
  Make({.entropy_sample_rate = 1}).RowsComputed(computed);
}

TEST_F(CallObserverTest, DeadHeadsAreToldByTheirReason) {
  EXPECT_CALL(metrics_, DeadHeads(DeadReason::kConstantLogits, 1));
  std::vector<RowStatistics> rows = MixingRows(32);
  // The second head, as if q were 0.
  for (size_t i = 16; i < rows.size(); ++i) {
    rows[i].entropy = std::log(4.0);
    rows[i].peak_weight = 0.25;
    rows[i].logit_max = 0;
  }
  Make({}).RowsComputed(TwoHeads(rows));
}

TEST_F(CallObserverTest, ASampleRateOfZeroLooksAtNothing) {
  EXPECT_CALL(metrics_, RowsObserved(_, _)).Times(0);
  EXPECT_CALL(metrics_, HeadsObserved(_, _)).Times(0);
  EXPECT_CALL(metrics_, DeadHeads(_, _)).Times(0);
  const std::vector<RowStatistics> rows(32);
  ComputedRows computed = TwoHeads(rows);
  computed.layer = "l";
  Make({.entropy_sample_rate = 0}).RowsComputed(computed);
}

}  // namespace
}  // namespace attn
