// Calls that go to the engine together, or run where they arrive, are what they
// would be alone.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "engine/core/aligned_buffer.h"
#include "engine/engine.h"
#include "engine/runtime/mutex.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

// A call with its tensors. Must not move once it was handed out.
class OwnedCall {
 public:
  OwnedCall(Engine& engine, int64_t q_length, int64_t kv_length, uint32_t seed)
      : q_(Random({1, kHeads, q_length, kDim}, seed)),
        k_(Random({1, kHeads, kv_length, kDim}, seed + 1)),
        v_(Random({1, kHeads, kv_length, kDim}, seed + 2)),
        output_(q_.size(), -1),
        cancellation_(Clock::Monotonic(), absl::InfiniteFuture()) {
    args_.q = View(q_, q_length);
    args_.k = View(k_, kv_length);
    args_.v = View(v_, kv_length);
    outputs_.output =
        MutableTensorView::Dense(reinterpret_cast<std::byte*>(output_.data()),
                                 DType::kF32, Shape{1, kHeads, q_length, kDim});
    plan_ = *engine.Plan({}, args_, {}, DType::kF32);
  }

  ForwardCall Forward() {
    return {.plan = plan_,
            .args = &args_,
            .outputs = &outputs_,
            .cancellation = &cancellation_,
            .done = [this](CallReport report) { Note(std::move(report)); }};
  }
  std::vector<float> Alone(Engine& engine) {
    EXPECT_TRUE(engine.Run(plan_, args_, outputs_).status.ok());
    std::vector<float> alone = output_;
    std::fill(output_.begin(), output_.end(), -1.0F);
    return alone;
  }
  const std::vector<float>& output() const { return output_; }
  const Plan& plan() const { return *plan_; }
  void Cancel() { cancellation_.Cancel(); }

  absl::Status Wait() {
    const MutexLock lock(mutex_);
    while (ends_ == 0) ended_.Wait(mutex_);
    return status_;
  }
  int ends() {
    const MutexLock lock(mutex_);
    return ends_;
  }

 private:
  static constexpr int64_t kHeads = 2;
  static constexpr int64_t kDim = 8;

  static std::vector<float> Random(const Shape& shape, uint32_t seed) {
    std::minstd_rand random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(static_cast<size_t>(shape.element_count()));
    for (float& value : values) value = uniform(random);
    return values;
  }
  static TensorView View(const std::vector<float>& values, int64_t length) {
    return TensorView::Dense(reinterpret_cast<const std::byte*>(values.data()),
                             DType::kF32, Shape{1, kHeads, length, kDim});
  }

  void Note(CallReport report) {
    const MutexLock lock(mutex_);
    ++ends_;
    status_ = std::move(report.status);
    ended_.NotifyAll();
  }

  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
  std::vector<float> output_;
  AttentionArgs args_;
  AttentionOutputs outputs_;
  Cancellation cancellation_;
  std::shared_ptr<const Plan> plan_;
  Mutex mutex_;
  CondVar ended_;
  int ends_ ATTN_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ATTN_GUARDED_BY(mutex_);
};

using Calls = std::vector<std::unique_ptr<OwnedCall>>;

// Small ones of many shapes, short ones, and every seventh long.
Calls MakeCalls(Engine& engine, int count) {
  Calls calls;
  for (int i = 0; i < count; ++i) {
    const bool is_long = i % 7 == 3;
    const bool is_short = i % 7 == 5;
    const int64_t scale = is_long ? 50 : (is_short ? 10 : 1);
    calls.push_back(std::make_unique<OwnedCall>(engine, scale * (10 + i % 3),
                                                scale * (11 + i % 7),
                                                static_cast<uint32_t>(i)));
    const Plan& plan = calls.back()->plan();
    EXPECT_EQ(Engine::IsSmall(plan), !is_long && !is_short);
    EXPECT_EQ(plan.flops > 1 << 24, is_long);
  }
  return calls;
}

void SubmitAll(Engine& engine, const Calls& calls) {
  std::vector<ForwardCall> together;
  together.reserve(calls.size());
  for (const auto& call : calls) together.push_back(call->Forward());
  engine.SubmitTogether(std::move(together));
}

TEST(CallsTogether, BitsAreThoseOfEachAlone) {
  Engine one({.workers = 1});
  Engine three({.workers = 3});
  for (Engine* engine : {&one, &three}) {
    const Calls calls = MakeCalls(*engine, 60);
    std::vector<std::vector<float>> alone;
    alone.reserve(calls.size());
    for (const auto& call : calls) alone.push_back(call->Alone(*engine));
    SubmitAll(*engine, calls);
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_TRUE(calls[i]->Wait().ok());
      EXPECT_EQ(std::memcmp(calls[i]->output().data(), alone[i].data(),
                            alone[i].size() * sizeof(float)),
                0)
          << i;
      EXPECT_EQ(calls[i]->ends(), 1);
    }
  }
}

TEST(CallsTogether, ACancelledCallLeavesTheOthersAlone) {
  Engine engine({.workers = 2});
  const Calls calls = MakeCalls(engine, 20);
  calls[5]->Cancel();
  SubmitAll(engine, calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    const absl::Status status = calls[i]->Wait();
    EXPECT_EQ(status.code(),
              i == 5 ? absl::StatusCode::kCancelled : absl::StatusCode::kOk);
  }
  for (const float value : calls[5]->output()) EXPECT_EQ(value, -1);
}

TEST(CallsTogether, EachEndsOnceWhenTheEngineStops) {
  Calls calls;
  {
    Engine engine({.workers = 1});
    calls = MakeCalls(engine, 200);
    SubmitAll(engine, calls);
  }
  for (const auto& call : calls) EXPECT_EQ(call->ends(), 1);
}

TEST(RunHere, BitsAreThoseOfAWorker) {
  Engine engine({.workers = 1});
  OwnedCall call(engine, 5, 11, 1);
  const std::vector<float> alone = call.Alone(engine);
  engine.RunHere(call.Forward());
  EXPECT_EQ(call.ends(), 1);
  EXPECT_EQ(std::memcmp(call.output().data(), alone.data(),
                        alone.size() * sizeof(float)),
            0);
}

TEST(RunHere, ACancelledCallComputesNothing) {
  Engine engine({.workers = 1});
  OwnedCall call(engine, 5, 11, 1);
  call.Cancel();
  engine.RunHere(call.Forward());
  EXPECT_TRUE(absl::IsCancelled(call.Wait()));
  for (const float value : call.output()) EXPECT_EQ(value, -1);
}

}  // namespace
}  // namespace attn
