// A call without a transport: what the thread sanitizer can see whole.
#include "server/rpc/attend_job.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/batching/refusal.h"
#include "server/rpc/byte_buffer.h"
#include "tests/server/rpc/call_fixture.h"
#include "tests/server/rpc/reply_box.h"

namespace attn {
namespace {

namespace wire = ::attention::v1;

wire::Tensor Ones(int64_t heads, int64_t length, int64_t dim) {
  const std::vector<float> values(static_cast<size_t>(heads * length * dim), 1);
  wire::Tensor tensor;
  tensor.set_dtype(wire::DATA_TYPE_F32);
  for (const int64_t extent : {int64_t{1}, heads, length, dim}) {
    tensor.add_shape(extent);
  }
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
  return tensor;
}

grpc::ByteBuffer Request(int64_t length) {
  constexpr int64_t kHeads = 2;
  constexpr int64_t kDim = 8;
  wire::AttendRequest request;
  *request.mutable_q() = Ones(kHeads, length, kDim);
  *request.mutable_k() = Ones(kHeads, length, kDim);
  *request.mutable_v() = Ones(kHeads, length, kDim);
  return ToByteBuffer(request);
}

class AttendJobTest : public CallFixture {
 protected:
  std::shared_ptr<AttendJob> Make(ReplyBox& box, absl::Duration patience) {
    return std::make_shared<AttendJob>(
        context_, Caller{.deadline = clock_.Now() + patience}, box.Callback());
  }
};

TEST_F(AttendJobTest, TheReplyIsTheMeanOfEqualValues) {
  ReplyBox box;
  grpc::ByteBuffer request = Request(4);
  Make(box, absl::Minutes(1))->Run(request);
  ASSERT_TRUE(box.Wait().ok());
  wire::AttendResponse response;
  ASSERT_TRUE(box.Parse(response));
  EXPECT_EQ(response.output().data(), Ones(2, 4, 8).data());
  EXPECT_FALSE(response.report().request_id().empty());
}

TEST_F(AttendJobTest, TheTransportsSlicesAreLetGo) {
  ReplyBox box;
  grpc::ByteBuffer request = Request(4);
  Make(box, absl::Minutes(1))->Run(request);
  EXPECT_EQ(request.Length(), 0);
  EXPECT_TRUE(box.Wait().ok());
}

TEST_F(AttendJobTest, ACallIsToldOfOnceItWasReplied) {
  ReplyBox box;
  grpc::ByteBuffer request = Request(4);
  auto job = std::make_shared<AttendJob>(
      context_, Caller{.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"},
      box.Callback());
  job->Report();
  EXPECT_EQ(Log(), "");
  job->Run(request);
  ASSERT_TRUE(box.Wait().ok());
  EXPECT_EQ(Log(), "");
  job->Report();
  const std::string lines = Log();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
  for (const char* part :
       {" method=\"Attend\" code=\"OK\" variant=\"dot_softmax\"",
        "shape=\"q[1, 2, 4, 8]", "trace=\"4bf92f3577b34da6"}) {
    EXPECT_NE(lines.find(part), std::string::npos) << part << lines;
  }
}

TEST_F(AttendJobTest, APlaceIsKeptAsLongAsTheJobLives) {
  ReplyBox box;
  grpc::ByteBuffer request = Request(4);
  auto job = Make(box, absl::Minutes(1));
  job->Run(request);
  ASSERT_TRUE(box.Wait().ok());
  EXPECT_EQ(admission_.requests(), 1);
  job.reset();
  EXPECT_TRUE(admission_.WaitUntilEmpty(absl::InfiniteDuration()));
}

TEST_F(AttendJobTest, AClosedGateRepliesAtOnce) {
  admission_.Close();
  ReplyBox box;
  grpc::ByteBuffer request = Request(4);
  Make(box, absl::Minutes(1))->Run(request);
  EXPECT_EQ(RefusalOf(box.Wait()), Refusal::kDraining);
}

TEST_F(AttendJobTest, AMessageThatIsTooLongIsRefusedBeforeItIsRead) {
  ReplyBox box;
  const grpc::Slice slice(std::string((1 << 20) + 1, '\0'));
  grpc::ByteBuffer request(&slice, 1);
  Make(box, absl::Minutes(1))->Run(request);
  EXPECT_EQ(RefusalOf(box.Wait()), Refusal::kTooLarge);
}

// A call that the system has no memory for.
class HungryJob final : public AttendJob {
 public:
  enum class Step { kAllocate, kEncode };

  HungryJob(const CallContext& context, Reply reply, Step step)
      : AttendJob(context, Caller{}, std::move(reply)), step_(step) {}

 private:
  void Allocate() override {
    if (step_ == Step::kAllocate) throw std::bad_alloc();
    AttendJob::Allocate();
  }
  grpc::ByteBuffer Encode(const CallReport& report) override {
    if (step_ == Step::kEncode) throw std::bad_alloc();
    return AttendJob::Encode(report);
  }

  const Step step_;
};

TEST_F(AttendJobTest, WhatTheSystemHasNoMemoryForIsRefusedAndLeaves) {
  for (const auto step :
       {HungryJob::Step::kAllocate, HungryJob::Step::kEncode}) {
    // One is computed where it arrives, one by a worker.
    for (const int64_t length : {4, 100}) {
      ReplyBox box;
      grpc::ByteBuffer request = Request(length);
      auto job = std::make_shared<HungryJob>(context_, box.Callback(), step);
      job->Run(request);
      EXPECT_EQ(RefusalOf(box.Wait()), Refusal::kMemory);
      EXPECT_EQ(box.count(), 1);
      job.reset();
      EXPECT_TRUE(admission_.WaitUntilEmpty(absl::InfiniteDuration()));
    }
  }
}

TEST_F(AttendJobTest, EveryJobRepliesOnceWheneverItIsCancelled) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 100;
  constexpr int kLongestMicroseconds = 2000;
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, &served, i] {
      std::minstd_rand random(i + 1);
      for (int call = 0; call < kCalls; ++call) {
        ReplyBox box;
        const bool late = random() % 2 == 0;
        auto job =
            Make(box, late ? absl::Microseconds(random() % kLongestMicroseconds)
                           : absl::Minutes(1));
        // Half of them are computed where they arrive.
        grpc::ByteBuffer request = Request(1 + random() % 120);
        job->Run(request);
        std::thread canceller;
        if (random() % 2 == 0)
          canceller = std::thread([job] { job->Cancel(); });
        served += box.Wait().ok() ? 1 : 0;
        if (canceller.joinable()) canceller.join();
        EXPECT_EQ(box.count(), 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_TRUE(admission_.WaitUntilEmpty(absl::InfiniteDuration()));
  EXPECT_EQ(batcher_.depth(), 0);
  EXPECT_EQ(batcher_.running(), 0);
  EXPECT_EQ(admission_.bytes(), 0);
}

}  // namespace
}  // namespace attn
