// Steps that fail on their way leave the session as it was.
#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/session_client.h"

namespace attn {
namespace {

constexpr TestShape kLongShape = {.batch = 1,
                                  .q_heads = 8,
                                  .kv_heads = 2,
                                  .q_length = 1500,
                                  .kv_length = 1500,
                                  .dim = 64};
constexpr int64_t kStepTokens = 700;

class SessionFailure : public ::testing::Test {
 protected:
  // Sends with little time, and waits until the server has done with it.
  grpc::Status SendInHaste(TestSession& session,
                           const wire::StepRequest& request,
                           std::chrono::microseconds time) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + time);
    wire::StepResponse response;
    const grpc::Status status =
        session.stub().Step(&context, request, &response);
    wire::RollbackRequest wrong;
    wrong.set_session_id(session.id());
    wrong.set_epoch(session.epoch + 7);
    grpc::Status idle;
    do {
      grpc::ClientContext asked;
      wire::RollbackResponse nothing;
      idle = session.stub().Rollback(&asked, wrong, &nothing);
    } while (ReasonIn(idle) == "SESSION_BUSY");
    EXPECT_EQ(ReasonIn(idle), "SESSION_WRONG_EPOCH");
    return status;
  }

  RunningServer server_;
  const SequenceTokens tokens_{kLongShape, 21};
};

// The second one took the first one back, and did not make it again.
TEST_F(SessionFailure, AStepThatWasMadeStaysIfItFailsWhenItIsAskedForAgain) {
  const auto open = OpenFor(kLongShape, RotarySpec());
  TestSession session(server_, open);
  TestSession twin(server_, open);
  wire::StepRequest request = session.Next();
  tokens_.AddTo(request, 0, kStepTokens);
  wire::StepResponse first;
  ASSERT_TRUE(session.Send(request, &first).ok());
  twin.Step(tokens_, 0, kStepTokens);
  for (int time = 1000; time < 40000; time += 1500) {
    SendInHaste(session, request, std::chrono::microseconds(time)).error_code();
    EXPECT_EQ(session.Info().next_step(), 1);
    EXPECT_EQ(session.Info().lengths(0), kStepTokens);
  }
  wire::StepResponse again;
  ASSERT_TRUE(session.Send(request, &again).ok());
  EXPECT_EQ(again.output(0).data(), first.output(0).data());
  EXPECT_EQ(session.Step(tokens_, kStepTokens, 1),
            twin.Step(tokens_, kStepTokens, 1));
}

TEST_F(SessionFailure, ANewStepThatIsLateIsMadeOrNot) {
  const auto open = OpenFor(kLongShape, RotarySpec());
  TestSession session(server_, open);
  TestSession twin(server_, open);
  session.Step(tokens_, 0, 30);
  twin.Step(tokens_, 0, 30);
  wire::StepRequest request = session.Next();
  tokens_.AddTo(request, 30, kStepTokens);
  const int64_t bytes = session.Info().bytes();
  for (int time = 1000; time < 40000; time += 1500) {
    SendInHaste(session, request, std::chrono::microseconds(time)).error_code();
    const wire::SessionInfo info = session.Info();
    const bool made = info.next_step() == 2;
    EXPECT_EQ(info.lengths(0), made ? 30 + kStepTokens : 30);
    if (made) break;
    EXPECT_EQ(info.bytes(), bytes);
  }
  wire::StepResponse response;
  ASSERT_TRUE(session.Send(request, &response).ok());
  EXPECT_EQ(Floats(response.output(0)), twin.Step(tokens_, 30, kStepTokens));
  EXPECT_EQ(session.Step(tokens_, 30 + kStepTokens, 1),
            twin.Step(tokens_, 30 + kStepTokens, 1));
}

// Its blocks were taken, from others if need be, before its answer was found to
// be too large.
TEST(SessionFailures, AStepWhoseAnswerIsTooLargeTakesNothing) {
  ServerOptions options = TestOptions();
  options.max_message_bytes = 256 << 10;
  RunningServer server(options);
  wire::OpenSessionRequest open;
  *open.mutable_spec() = CausalSpec();
  open.set_q_heads(8);
  open.set_kv_heads(1);
  open.set_q_dim(8);
  open.set_v_dim(64);
  TestSession session(server, open);
  constexpr int64_t kTokens = 200;
  wire::StepRequest request = session.Next();
  *request.add_q() =
      FloatTensor({1, 8, kTokens, 8}, RandomFloats(8 * kTokens * 8, 1));
  *request.add_k() =
      FloatTensor({1, 1, kTokens, 8}, RandomFloats(kTokens * 8, 2));
  *request.add_v() =
      FloatTensor({1, 1, kTokens, 64}, RandomFloats(kTokens * 64, 3));
  wire::StepResponse response;
  const grpc::Status status = session.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("a response"));
  EXPECT_EQ(session.Info().bytes(), 0);
  EXPECT_EQ(session.Info().next_step(), 0);
}

}  // namespace
}  // namespace attn
