// Sessions over the wire: whatever way a sequence comes, it is the same
// attention as one call.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/session_client.h"

namespace attn {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t kTokens = 150;  // more than two blocks
constexpr TestShape kShape = {.batch = 1,
                              .q_heads = 4,
                              .kv_heads = 2,
                              .q_length = kTokens,
                              .kv_length = kTokens,
                              .dim = 8};

class SessionTest : public ::testing::Test {
 protected:
  // What Attend gives for all tokens at once: [1, H, kTokens, D].
  std::vector<float> Whole(const SequenceTokens& tokens,
                           const wire::AttentionSpec& spec) {
    wire::AttendResponse response;
    const grpc::Status status = server_.Attend(tokens.Whole(spec), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Floats(response.output());
  }
  static std::vector<float> RowsOfOutput(const std::vector<float>& whole,
                                         int64_t begin, int64_t count) {
    return SequenceTokens::Rows(whole, kShape.q_heads, kTokens, kShape.dim,
                                begin, count);
  }
  // Steps of these sizes, over and over.
  void ExpectSteps(TestSession& session, const SequenceTokens& tokens,
                   const std::vector<int64_t>& sizes,
                   const std::vector<float>& whole, float tolerance) {
    size_t turn = 0;
    for (int64_t begin = 0; begin < kTokens;) {
      const int64_t count =
          std::min(sizes[turn++ % sizes.size()], kTokens - begin);
      EXPECT_THAT(
          session.Step(tokens, begin, count),
          Pointwise(FloatNear(tolerance), RowsOfOutput(whole, begin, count)))
          << "tokens from " << begin;
      begin += count;
    }
  }

  RunningServer server_;
};

TEST_F(SessionTest, OneStepOfAllTokensHasTheBitsOfAttend) {
  const SequenceTokens tokens(kShape, 1);
  for (const auto& spec : {CausalSpec(), RotarySpec()}) {
    TestSession session(server_, OpenFor(kShape, spec));
    EXPECT_EQ(session.Step(tokens, 0, kTokens), Whole(tokens, spec));
  }
}

TEST_F(SessionTest, StepsOfAnySizeGiveWhatTheWholeSequenceGives) {
  const SequenceTokens tokens(kShape, 2);
  const std::vector<float> whole = Whole(tokens, RotarySpec());
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{1}, {7}, {64}, {100, 1, 1}}) {
    TestSession session(server_, OpenFor(kShape, RotarySpec()));
    ExpectSteps(session, tokens, sizes, whole, 1e-5F);
  }
}

TEST_F(SessionTest, NarrowKeysAreWithinTheirRounding) {
  const SequenceTokens tokens(kShape, 3);
  const std::vector<float> whole = Whole(tokens, RotarySpec());
  // Outputs are means of values in [-1, 1): the error of a value, and of the
  // weights by scores of at most 8 products.
  for (const auto& [dtype, tolerance] :
       {std::pair(wire::DATA_TYPE_F16, 2e-3F),
        std::pair(wire::DATA_TYPE_BF16, 2e-2F),
        std::pair(wire::DATA_TYPE_I8, 2e-2F)}) {
    wire::OpenSessionRequest open = OpenFor(kShape, RotarySpec());
    open.set_kv_dtype(dtype);
    TestSession session(server_, open);
    ExpectSteps(session, tokens, {1, 5}, whole, tolerance);
  }
}

TEST_F(SessionTest, AWindowSeesWhatItSeesInOneCallAndLetsTheRestGo) {
  constexpr int64_t kLeft = 20;
  wire::AttentionSpec spec = CausalSpec();
  auto* window = spec.add_masks()->mutable_window();
  window->set_left(kLeft);
  window->set_alignment(wire::ALIGNMENT_BOTTOM_RIGHT);
  const SequenceTokens tokens(kShape, 4);
  TestSession session(server_, OpenFor(kShape, spec));
  ExpectSteps(session, tokens, {1}, Whole(tokens, spec), 1e-5F);
  // Of three blocks of 64 tokens the first is gone.
  const int64_t block = 64 * 2 * kShape.kv_heads * kShape.dim * 4;
  EXPECT_EQ(session.Info().bytes(), 2 * block);
}

TEST_F(SessionTest, SinksAndAlibiGoOnOverSteps) {
  wire::AttentionSpec spec = CausalSpec();
  spec.add_biases()->mutable_alibi();
  const SequenceTokens tokens(kShape, 5);
  TestSession session(server_, OpenFor(kShape, spec));
  ExpectSteps(session, tokens, {3, 1}, Whole(tokens, spec), 1e-5F);
}

TEST_F(SessionTest, InputsOfASpecAreKeptWithIt) {
  wire::AttentionSpec spec = CausalSpec();
  spec.mutable_normalizer()->mutable_softmax()->mutable_sink()->set_input(0);
  const auto sinks = FloatTensor({kShape.q_heads}, {0.5, -1, 2, 0});
  const SequenceTokens tokens(kShape, 6);
  wire::AttendRequest whole = tokens.Whole(spec);
  *whole.add_inputs() = sinks;
  wire::AttendResponse want;
  ASSERT_TRUE(server_.Attend(whole, &want).ok());
  wire::OpenSessionRequest open = OpenFor(kShape, spec);
  *open.add_inputs() = sinks;
  TestSession session(server_, open);
  ExpectSteps(session, tokens, {10}, Floats(want.output()), 1e-5F);
}

TEST_F(SessionTest, LayersOfOneMessageAreLayersOfTheirOwn) {
  wire::OpenSessionRequest open = OpenFor(kShape, RotarySpec());
  open.set_layers(3);
  TestSession session(server_, open);
  const std::vector<SequenceTokens> layers = {
      {kShape, 10}, {kShape, 20}, {kShape, 30}};
  for (int64_t begin = 0; begin < 4; ++begin) {
    wire::StepRequest request = session.Next();
    // In any order.
    for (const int layer : {2, 0, 1}) {
      request.add_layers(layer);
      layers[static_cast<size_t>(layer)].AddTo(request, begin, 1);
    }
    wire::StepResponse response;
    const grpc::Status status = session.Send(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.output_size(), 3);
    int at = 0;
    for (const int layer : {2, 0, 1}) {
      const auto whole =
          Whole(layers[static_cast<size_t>(layer)], RotarySpec());
      EXPECT_THAT(Floats(response.output(at++)),
                  Pointwise(FloatNear(1e-5F), RowsOfOutput(whole, begin, 1)));
    }
  }
  EXPECT_THAT(session.Info().lengths(), ::testing::ElementsAre(4, 4, 4));
}

TEST_F(SessionTest, AForkAndItsOriginGoTheirOwnWays) {
  const SequenceTokens tokens(kShape, 7);
  const SequenceTokens others(kShape, 8);
  TestSession session(server_, OpenFor(kShape, RotarySpec()));
  session.Step(tokens, 0, 100);
  wire::ForkResponse forked;
  ASSERT_TRUE(session.Fork(90, &forked).ok());
  TestSession fork(server_, forked.session_id(), forked.epoch(), 90);
  // What the fork writes is not seen by its origin.
  fork.Step(others, 90, 40);
  const auto on = session.Step(tokens, 100, 10);
  TestSession alone(server_, OpenFor(kShape, RotarySpec()));
  alone.Step(tokens, 0, 100);
  EXPECT_EQ(on, alone.Step(tokens, 100, 10));
  // And the other way round: the fork is as if it had come by itself.
  TestSession second(server_, OpenFor(kShape, RotarySpec()));
  second.Step(tokens, 0, 90);
  second.Step(others, 90, 40);
  EXPECT_EQ(fork.Step(others, 130, 5), second.Step(others, 130, 5));
}

TEST_F(SessionTest, WhatIsRolledBackAndSentAgainHasTheSameBits) {
  const SequenceTokens tokens(kShape, 9);
  TestSession session(server_, OpenFor(kShape, RotarySpec()));
  session.Step(tokens, 0, 70);
  std::vector<std::vector<float>> first;
  for (int64_t i = 70; i < 80; ++i) first.push_back(session.Step(tokens, i, 1));
  ASSERT_TRUE(session.Rollback(70).ok());
  for (int64_t i = 70; i < 80; ++i) {
    EXPECT_EQ(session.Step(tokens, i, 1), first[static_cast<size_t>(i - 70)]);
  }
}

TEST_F(SessionTest, AStreamAnswersItsStepsInOrder) {
  const SequenceTokens tokens(kShape, 15);
  const std::vector<float> whole = Whole(tokens, RotarySpec());
  TestSession session(server_, OpenFor(kShape, RotarySpec()));
  grpc::ClientContext context;
  const auto stream = session.stub().StepStream(&context);
  constexpr int64_t kSteps = 20;
  for (int64_t i = 0; i < kSteps; ++i) {
    wire::StepStreamRequest request;
    *request.mutable_step() = session.Next();
    request.mutable_step()->set_step(static_cast<uint64_t>(i));
    request.mutable_step()->set_position(i);
    tokens.AddTo(*request.mutable_step(), i, 1);
    ASSERT_TRUE(stream->Write(request));
  }
  // One that fails ends nothing.
  wire::StepStreamRequest late;
  *late.mutable_step() = session.Next();
  late.mutable_step()->set_step(99);
  tokens.AddTo(*late.mutable_step(), 0, 1);
  ASSERT_TRUE(stream->Write(late));
  ASSERT_TRUE(stream->WritesDone());
  wire::StepStreamResponse response;
  for (int64_t i = 0; i < kSteps; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.response().step(), static_cast<uint64_t>(i));
    EXPECT_THAT(Floats(response.response().output(0)),
                Pointwise(FloatNear(1e-5F), RowsOfOutput(whole, i, 1)));
  }
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.status().code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace attn
