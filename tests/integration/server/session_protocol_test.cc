// Steps that come again, late or wrong; sessions that are not there; memory.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/session_client.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

constexpr TestShape kProtocolShape = {.batch = 1,
                                      .q_heads = 4,
                                      .kv_heads = 2,
                                      .q_length = 150,
                                      .kv_length = 150,
                                      .dim = 8};

class SessionProtocol : public ::testing::Test {
 protected:
  // What the server says to a session that it does not open.
  std::string Refusal(const wire::OpenSessionRequest& open) {
    const auto stub = wire::SessionService::NewStub(server_.Connect());
    grpc::ClientContext context;
    wire::OpenSessionResponse response;
    const grpc::Status status = stub->OpenSession(&context, open, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  }

  RunningServer server_;
};

TEST_F(SessionProtocol, TheSameRollbackAgainIsAnsweredTheSame) {
  const SequenceTokens tokens(kProtocolShape, 9);
  TestSession session(server_, OpenFor(kProtocolShape, CausalSpec()));
  session.Step(tokens, 0, 70);
  const uint64_t before = session.epoch;
  ASSERT_TRUE(session.Rollback(10).ok());
  const uint64_t after = session.epoch;
  EXPECT_NE(before, after);
  session.epoch = before;
  ASSERT_TRUE(session.Rollback(10).ok());
  EXPECT_EQ(session.epoch, after);
  // Another one with the old epoch is not.
  session.epoch = before;
  const grpc::Status status = session.Rollback(5);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "SESSION_WRONG_EPOCH");
}

TEST_F(SessionProtocol, TheLastStepAgainAppendsNothing) {
  const SequenceTokens tokens(kProtocolShape, 11);
  TestSession session(server_, OpenFor(kProtocolShape, RotarySpec()));
  session.Step(tokens, 0, 5);
  wire::StepRequest request = session.Next();
  tokens.AddTo(request, 5, 1);
  wire::StepResponse first;
  ASSERT_TRUE(session.Send(request, &first).ok());
  wire::StepResponse again;
  ASSERT_TRUE(session.Send(request, &again).ok());
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  EXPECT_EQ(session.Info().lengths(0), 6);
  // With other numbers it is not the last step again.
  request.mutable_v(0)->mutable_data()->front() ^= 1;
  const grpc::Status status = session.Send(request, &again);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "SESSION_STEP_REPLACED");
}

// An answer that is too large to be kept is computed again.
TEST_F(SessionProtocol, ALargeLastStepAgainHasTheSameOutput) {
  TestShape large = kProtocolShape;
  large.q_length = large.kv_length = 600;
  large.dim = 64;
  const SequenceTokens tokens(large, 12);
  TestSession session(server_, OpenFor(large, RotarySpec()));
  wire::StepRequest request = session.Next();
  tokens.AddTo(request, 0, 600);
  wire::StepResponse first;
  ASSERT_TRUE(session.Send(request, &first).ok());
  wire::StepResponse again;
  const grpc::Status status = session.Send(request, &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.output(0).data(), first.output(0).data());
  EXPECT_EQ(session.Info().lengths(0), 600);
  EXPECT_EQ(session.Info().next_step(), 1);
}

TEST_F(SessionProtocol, WhatIsNotTheNextStepSaysWhich) {
  const SequenceTokens tokens(kProtocolShape, 13);
  TestSession session(server_, OpenFor(kProtocolShape, CausalSpec()));
  session.Step(tokens, 0, 5);
  wire::StepRequest request = session.Next();
  tokens.AddTo(request, 5, 1);
  request.set_step(2);
  wire::StepResponse response;
  grpc::Status status = session.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "SESSION_STEP_GAP");
  EXPECT_THAT(status.error_message(), HasSubstr("step: got 2, expected 1"));
  request.set_step(1);
  request.set_position(4);
  status = session.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "SESSION_STEP_GAP");
  EXPECT_THAT(status.error_message(), HasSubstr("position: got 4, expected 5"));
  request.set_position(5);
  EXPECT_TRUE(session.Send(request, &response).ok());
}

TEST_F(SessionProtocol, AStepThatFailsAppendsNothing) {
  const SequenceTokens tokens(kProtocolShape, 14);
  TestSession session(server_, OpenFor(kProtocolShape, RotarySpec()));
  session.Step(tokens, 0, 70);
  TestShape wide = kProtocolShape;
  wide.dim = 16;
  wire::StepRequest request = session.Next();
  SequenceTokens(wide, 1).AddTo(request, 0, 1);
  wire::StepResponse response;
  const grpc::Status status = session.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("q[0].shape"));
  TestSession other(server_, OpenFor(kProtocolShape, RotarySpec()));
  other.Step(tokens, 0, 70);
  EXPECT_EQ(session.Step(tokens, 70, 1), other.Step(tokens, 70, 1));
}

TEST_F(SessionProtocol, ASessionThatIsNotHereSaysSo) {
  TestSession session(server_, OpenFor(kProtocolShape, CausalSpec()));
  EXPECT_TRUE(session.Close().ok());
  EXPECT_TRUE(session.Close().ok());
  wire::StepRequest request = session.Next();
  SequenceTokens(kProtocolShape, 1).AddTo(request, 0, 1);
  wire::StepResponse response;
  const grpc::Status status = session.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(status), "SESSION_NOT_HERE");
}

TEST_F(SessionProtocol, SpecsThatASessionCannotKeepAreRefusedByName) {
  wire::OpenSessionRequest open = OpenFor(kProtocolShape, CausalSpec());
  open.set_kv_heads(3);
  EXPECT_THAT(Refusal(open), HasSubstr("kv_heads: got 3"));
  open = OpenFor(kProtocolShape, CausalSpec());
  open.set_kv_dtype(wire::DATA_TYPE_F64);
  EXPECT_THAT(Refusal(open), HasSubstr("kv_dtype: got F64"));
  open = OpenFor(kProtocolShape, CausalSpec());
  open.mutable_spec()->mutable_masks(0)->mutable_causal()->set_alignment(
      wire::ALIGNMENT_TOP_LEFT);
  EXPECT_THAT(Refusal(open), HasSubstr("spec.masks[0].causal.alignment"));
  // A bias over all scores grows with the sequence.
  open = OpenFor(kProtocolShape, CausalSpec());
  open.mutable_spec()
      ->add_biases()
      ->mutable_dense()
      ->mutable_tensor()
      ->set_input(0);
  *open.add_inputs() = FloatTensor({1, 2}, {0, 1});
  EXPECT_THAT(Refusal(open), HasSubstr("spec.biases[0]"));
}

// They were taken, and gave other numbers in steps than in one call.
TEST_F(SessionProtocol, SpecsThatLookAtRowsOfACallAreRefusedByName) {
  wire::OpenSessionRequest open = OpenFor(kProtocolShape, CausalSpec());
  auto* big_bird = open.mutable_spec()->add_masks()->mutable_big_bird();
  big_bird->set_block(4);
  big_bird->set_window_blocks(3);
  EXPECT_THAT(Refusal(open), HasSubstr("spec.masks[1].big_bird: got set"));
  open = OpenFor(kProtocolShape, CausalSpec());
  open.mutable_spec()->mutable_score_program()->set_source("score - q");
  EXPECT_THAT(Refusal(open), HasSubstr("expected p, the query's position"));
  open = OpenFor(kProtocolShape, CausalSpec());
  open.mutable_spec()->mutable_head_gate()->set_input(0);
  *open.add_inputs() = FloatTensor({1, 4, 1}, {1, 2, 3, 4});
  EXPECT_THAT(Refusal(open), HasSubstr("spec.head_gate.input: got [1, 4, 1]"));
  // A table of two positions does not reach three tokens.
  open = OpenFor(kProtocolShape, CausalSpec());
  auto* rotary = open.mutable_spec()->add_transforms()->mutable_rotary();
  rotary->set_layout(wire::ROTARY_LAYOUT_INTERLEAVED);
  rotary->mutable_cos()->set_input(0);
  rotary->mutable_sin()->set_input(0);
  rotary->set_rotary_dim(2);
  *open.add_inputs() = FloatTensor({2, 1}, {1, 1});
  open.set_max_tokens(3);
  EXPECT_THAT(Refusal(open), HasSubstr("rotary.cos.input: got 2 positions"));
}

// One in some thousands was not found by the very call that had opened it.
TEST_F(SessionProtocol, OpeningIsAnsweredHoweverSoonTheSessionIsForgotten) {
  const auto stub = wire::SessionService::NewStub(server_.Connect());
  wire::OpenSessionRequest open = OpenFor(kProtocolShape, CausalSpec());
  open.set_idle_timeout_ms(1);
  for (int i = 0; i < 500; ++i) {
    grpc::ClientContext context;
    wire::OpenSessionResponse response;
    const grpc::Status status = stub->OpenSession(&context, open, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.session().session_id(), response.session_id());
  }
}

TEST_F(SessionProtocol, AListHasTheCallersSessionsPageByPage) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(
        TestSession(server_, OpenFor(kProtocolShape, CausalSpec())).id());
  }
  std::sort(ids.begin(), ids.end());
  const auto stub = wire::SessionService::NewStub(server_.Connect());
  std::vector<std::string> found;
  wire::ListSessionsRequest request;
  request.set_page_size(2);
  do {
    grpc::ClientContext context;
    wire::ListSessionsResponse response;
    ASSERT_TRUE(stub->ListSessions(&context, request, &response).ok());
    for (const auto& session : response.sessions()) {
      found.push_back(session.session_id());
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(found, ids);
}

TEST(SessionMemory, IsRefusedByNameWhenNobodyCanMakeRoom) {
  ServerOptions options = TestOptionsWithMetrics();
  options.max_session_bytes = 36 << 10;
  RunningServer server(options);
  const SequenceTokens tokens(kProtocolShape, 16);
  TestSession session(server, OpenFor(kProtocolShape, CausalSpec()));
  // A block of 64 tokens has 8 KiB: four are all, as a session itself has one
  // or two.
  TestSession other(server, OpenFor(kProtocolShape, CausalSpec()));
  session.Step(tokens, 0, 150);
  other.Step(tokens, 0, 60);
  wire::StepRequest request = other.Next();
  tokens.AddTo(request, 60, 10);
  wire::StepResponse response;
  const grpc::Status status = other.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(status), "KV_MEMORY");
  EXPECT_THAT(status.error_message(), HasSubstr("--max-session-bytes"));
  // Nothing is lost: there is room when the other one goes.
  ASSERT_TRUE(session.Close().ok());
  EXPECT_TRUE(other.Send(request, &response).ok());
  EXPECT_EQ(server.MetricReaching(
                "attn_kv_session_errors_total{reason=\"kv_memory\"}", 1),
            1);
}

TEST(SessionMemory, MaxTokensIsASessionsOwnBound) {
  RunningServer server;
  const SequenceTokens tokens(kProtocolShape, 17);
  wire::OpenSessionRequest open = OpenFor(kProtocolShape, CausalSpec());
  open.set_max_tokens(10);
  TestSession session(server, open);
  session.Step(tokens, 0, 9);
  wire::StepRequest request = session.Next();
  tokens.AddTo(request, 9, 2);
  wire::StepResponse response;
  const grpc::Status status = session.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(status), "SESSION_FULL");
  session.Step(tokens, 9, 1);
}

}  // namespace
}  // namespace attn
