// A sweep that the system has no memory for.
#include "server/rpc/inspect_job.h"

#include <future>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/batching/refusal.h"
#include "server/rpc/byte_buffer.h"
#include "tests/server/rpc/call_fixture.h"

namespace attn {
namespace {

// One head of width 2, three rows.
v1::Tensor ThreeRows() {
  const std::vector<float> values(6, 1);
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_F32);
  for (const int64_t extent : {1, 1, 3, 2}) tensor.add_shape(extent);
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
  return tensor;
}

grpc::ByteBuffer SweepRequest(int temperatures) {
  v1::InspectRequest request;
  *request.mutable_q() = ThreeRows();
  *request.mutable_k() = ThreeRows();
  *request.mutable_v() = ThreeRows();
  for (int i = 1; i <= temperatures; ++i) request.add_sweep_temperatures(i);
  return ToByteBuffer(request);
}

// There is memory for the points before the last.
class HungrySweepJob final : public InspectJob {
 public:
  HungrySweepJob(const CallContext& context, Reply reply, int points)
      : InspectJob(context, Caller{}, std::move(reply)), points_left_(points) {}

  int points_left() const { return points_left_; }

 private:
  std::vector<HeadStatistics> PointOf(const CallReport& report) const override {
    if (--points_left_ == 0) throw std::bad_alloc();
    return InspectJob::PointOf(report);
  }

  mutable int points_left_;
};

using SweepTest = CallFixture;

TEST_F(SweepTest, APointThatTheSystemHasNoMemoryForEndsTheCall) {
  for (const int points : {1, 2, 3}) {
    grpc::ByteBuffer request = SweepRequest(3);
    std::promise<absl::Status> replied;
    auto job = std::make_shared<HungrySweepJob>(
        context_,
        [&replied](const absl::Status& status, grpc::ByteBuffer&) {
          replied.set_value(status);
        },
        points);
    job->Run(request);
    EXPECT_EQ(RefusalOf(replied.get_future().get()), Refusal::kMemory);
    // The rest of the sweep is not computed.
    EXPECT_EQ(job->points_left(), 0);
    job.reset();
    EXPECT_TRUE(admission_.WaitUntilEmpty(absl::InfiniteDuration()));
  }
}

TEST_F(SweepTest, APointForEachTemperatureAndTheRowsOfTheCall) {
  grpc::ByteBuffer request = SweepRequest(2);
  std::promise<v1::InspectResponse> replied;
  auto job = std::make_shared<InspectJob>(
      context_, Caller{},
      [&replied](const absl::Status& status, grpc::ByteBuffer& bytes) {
        v1::InspectResponse response;
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(ParseMessage(bytes, response));
        replied.set_value(response);
      });
  job->Run(request);
  const v1::InspectResponse response = replied.get_future().get();
  EXPECT_EQ(response.sweep_size(), 2);
  EXPECT_EQ(response.row_statistics().visible_keys().data().size(),
            3 * sizeof(int64_t));
  job.reset();
  EXPECT_TRUE(admission_.WaitUntilEmpty(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace attn
