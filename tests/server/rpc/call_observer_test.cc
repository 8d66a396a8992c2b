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
using ::testing::DoubleNear;
using ::testing::NiceMock;

class MockMetrics : public Metrics {
 public:
  MOCK_METHOD(void, RequestStarted, (), (override));
  MOCK_METHOD(void, RequestEnded,
              (const std::string&, const std::string&, const std::string&,
               double),
              (override));
  MOCK_METHOD(void, PhaseEnded, (Phase, double), (override));
  MOCK_METHOD(void, RequestRejected, (RejectReason), (override));
  MOCK_METHOD(void, BatchFormed, (int64_t, int64_t), (override));
  MOCK_METHOD(void, BytesReceived, (int64_t), (override));
  MOCK_METHOD(void, BytesSent, (int64_t), (override));
  MOCK_METHOD(void, PayloadCopies, (int64_t), (override));
  MOCK_METHOD(void, ComputeDone, (double), (override));
  MOCK_METHOD(void, RowObserved, (const std::string&, double, double),
              (override));
  MOCK_METHOD(void, FullyMaskedRows, (int64_t), (override));
  MOCK_METHOD(void, NonfiniteInputs, (const std::string&, int64_t), (override));
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
  EXPECT_CALL(metrics_, RequestEnded("Attend", "dot_softmax", "OK", 2.0));
  EXPECT_CALL(metrics_, PhaseEnded(_, _)).Times(3);
  EXPECT_CALL(metrics_, PhaseEnded(Phase::kCompute, 1.0));
  EXPECT_CALL(metrics_, NonfiniteInputs(_, 0)).Times(2);
  EXPECT_CALL(metrics_, NonfiniteInputs("k", 3));
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

std::vector<RowStatistics> Rows(size_t count) {
  RowStatistics row;
  row.visible_keys = 4;
  row.entropy = std::log(2.0);
  row.peak_weight = 0.5;
  return std::vector<RowStatistics>(count, row);
}

TEST_F(CallObserverTest, EntropyIsSharedOutOfTheLargestPossible) {
  // ln 2 of ln 4.
  EXPECT_CALL(metrics_, RowObserved("v", DoubleNear(0.5, 1e-12), 0.5));
  Make({.entropy_sample_rate = 1}).RowsComputed("v", Rows(1));
}

TEST_F(CallObserverTest, RowsThatSeeOneKeyTellNothing) {
  EXPECT_CALL(metrics_, RowObserved(_, _, _)).Times(0);
  std::vector<RowStatistics> rows = Rows(2);
  rows[0].visible_keys = 1;
  rows[1].visible_keys = 0;
  Make({.entropy_sample_rate = 1}).RowsComputed("v", rows);
}

TEST_F(CallObserverTest, AHugeCallGivesABoundedNumberOfRows) {
  EXPECT_CALL(metrics_, RowObserved(_, _, _)).Times(32);
  Make({.entropy_sample_rate = 1}).RowsComputed("v", Rows(100000));
}

TEST_F(CallObserverTest, NoNumberOfRowsGivesMoreThanTheBound) {
  for (const size_t rows : std::vector<size_t>{32, 33, 63, 64, 65, 1000}) {
    EXPECT_CALL(metrics_, RowObserved(_, _, _))
        .Times(::testing::Between(1, 32));
    Make({.entropy_sample_rate = 1}).RowsComputed("v", Rows(rows));
    ::testing::Mock::VerifyAndClearExpectations(&metrics_);
  }
}

TEST_F(CallObserverTest, ASampleRateOfZeroLooksAtNothing) {
  EXPECT_CALL(metrics_, RowObserved(_, _, _)).Times(0);
  Make({.entropy_sample_rate = 0}).RowsComputed("v", Rows(10));
}

}  // namespace
}  // namespace attn
