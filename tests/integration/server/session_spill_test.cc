// Sessions that went to disk go on with the same bits, in this server or in the
// next one.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/integration/server/session_client.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr TestShape kSpillShape = {.batch = 1,
                                   .q_heads = 4,
                                   .kv_heads = 2,
                                   .q_length = 250,
                                   .kv_length = 250,
                                   .dim = 8};

struct SpillCase {
  std::string name;
  wire::OpenSessionRequest open;
};

wire::OpenSessionRequest WithKvType(wire::DataType dtype) {
  wire::OpenSessionRequest open = OpenFor(kSpillShape, RotarySpec());
  open.set_kv_dtype(dtype);
  return open;
}

wire::OpenSessionRequest WithWindow() {
  wire::AttentionSpec spec = RotarySpec();
  auto* window = spec.add_masks()->mutable_window();
  window->set_left(20);
  window->set_alignment(wire::ALIGNMENT_BOTTOM_RIGHT);
  return OpenFor(kSpillShape, spec);
}

wire::OpenSessionRequest WithSinkInputs() {
  wire::AttentionSpec spec = CausalSpec();
  spec.mutable_normalizer()->mutable_softmax()->mutable_sink()->set_input(0);
  wire::OpenSessionRequest open = OpenFor(kSpillShape, spec);
  *open.add_inputs() = FloatTensor({kSpillShape.q_heads}, {0.5, -1, 2, 0});
  return open;
}

class SessionSpill : public ::testing::Test {
 protected:
  SessionSpill() {
    options_.session_dir = folder_.File("sessions");
    Restart();
  }
  // As after a SIGTERM; then a new server on the same folder.
  void Restart() {
    if (server_ != nullptr) server_->Stop();
    server_.reset();
    server_ = std::make_unique<RunningServer>(options_);
  }
  // The client's end of a session, on the server that there is now.
  TestSession Again(const TestSession& session) {
    TestSession again(*server_, session.id(), session.epoch, session.position);
    again.step = session.step;
    return again;
  }
  void AwaitSpill(TestSession& session) {
    EXPECT_TRUE(Becomes([&] { return session.Info().spilled_bytes() > 0; }));
  }
  std::string FileOf(const TestSession& session) const {
    return options_.session_dir + "/" + session.id() + ".session";
  }

  ScratchFolder folder_;
  ServerOptions options_ = TestOptions();
  std::unique_ptr<RunningServer> server_;
  // Spills nothing: what is on it was never interrupted.
  RunningServer undisturbed_;
};

TEST_F(SessionSpill, ARestartChangesNoBit) {
  const SequenceTokens tokens(kSpillShape, 1);
  std::vector<SpillCase> cases = {{"F32", WithKvType(wire::DATA_TYPE_F32)},
                                  {"F16", WithKvType(wire::DATA_TYPE_F16)},
                                  {"BF16", WithKvType(wire::DATA_TYPE_BF16)},
                                  {"I8", WithKvType(wire::DATA_TYPE_I8)},
                                  {"window", WithWindow()},
                                  {"inputs of the spec", WithSinkInputs()}};
  std::vector<TestSession> sessions;
  std::vector<TestSession> twins;
  for (const SpillCase& c : cases) {
    sessions.emplace_back(*server_, c.open);
    twins.emplace_back(undisturbed_, c.open);
    for (TestSession* session : {&sessions.back(), &twins.back()}) {
      session->Step(tokens, 0, 100);
      // A window lets go of what the step before it could see.
      for (int64_t i = 100; i < 220; ++i) session->Step(tokens, i, 1);
    }
  }
  Restart();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    TestSession session = Again(sessions[i]);
    EXPECT_GT(session.Info().spilled_bytes(), 0);
    EXPECT_EQ(session.Info().pipeline(), twins[i].Info().pipeline());
    EXPECT_EQ(session.Step(tokens, 220, 1), twins[i].Step(tokens, 220, 1));
    EXPECT_EQ(session.Step(tokens, 221, 20), twins[i].Step(tokens, 221, 20));
    wire::SessionInfo info = session.Info();
    EXPECT_EQ(info.spilled_bytes(), 0);
    EXPECT_EQ(info.bytes(), twins[i].Info().bytes());
    EXPECT_FALSE(std::filesystem::exists(FileOf(session)));
  }
}

TEST_F(SessionSpill, TheLastStepAgainHasTheSameBytesAfterARestart) {
  const SequenceTokens tokens(kSpillShape, 2);
  TestSession before(*server_, OpenFor(kSpillShape, RotarySpec()));
  before.Step(tokens, 0, 5);
  wire::StepRequest request = before.Next();
  tokens.AddTo(request, 5, 1);
  wire::StepResponse first;
  ASSERT_TRUE(before.Send(request, &first).ok());
  Restart();
  TestSession session = Again(before);
  wire::StepResponse again;
  const grpc::Status status = session.Send(request, &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  EXPECT_EQ(session.Info().lengths(0), 6);
  // With other numbers it is not the last step again.
  request.mutable_v(0)->mutable_data()->front() ^= 1;
  EXPECT_EQ(ReasonIn(session.Send(request, &again)), "SESSION_STEP_REPLACED");
}

// An answer that is too large to be kept is computed again.
TEST_F(SessionSpill, ALargeLastStepAgainHasTheSameOutputAfterARestart) {
  TestShape large = kSpillShape;
  large.q_length = large.kv_length = 600;
  large.dim = 64;
  const SequenceTokens tokens(large, 3);
  TestSession before(*server_, OpenFor(large, RotarySpec()));
  wire::StepRequest request = before.Next();
  tokens.AddTo(request, 0, 600);
  wire::StepResponse first;
  ASSERT_TRUE(before.Send(request, &first).ok());
  Restart();
  TestSession session = Again(before);
  wire::StepResponse again;
  const grpc::Status status = session.Send(request, &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.output(0).data(), first.output(0).data());
  EXPECT_EQ(session.Info().next_step(), 1);
}

TEST_F(SessionSpill, RollbacksAndForksGoOnAfterARestart) {
  const SequenceTokens tokens(kSpillShape, 4);
  const SequenceTokens others(kSpillShape, 5);
  TestSession before(*server_, OpenFor(kSpillShape, RotarySpec()));
  before.Step(tokens, 0, 150);
  wire::ForkResponse forked;
  ASSERT_TRUE(before.Fork(90, &forked).ok());
  ASSERT_TRUE(before.Rollback(100).ok());
  Restart();
  TestSession twin(undisturbed_, OpenFor(kSpillShape, RotarySpec()));
  twin.Step(tokens, 0, 100);
  // The fork, which shared its blocks.
  TestSession fork(*server_, forked.session_id(), forked.epoch(), 90);
  TestSession fork_twin(undisturbed_, OpenFor(kSpillShape, RotarySpec()));
  fork_twin.Step(tokens, 0, 90);
  EXPECT_EQ(fork.Step(others, 90, 10), fork_twin.Step(others, 90, 10));
  TestSession session = Again(before);
  // The same rollback is still answered the same.
  session.epoch -= 1;
  ASSERT_TRUE(session.Rollback(100).ok());
  EXPECT_EQ(session.epoch, before.epoch);
  EXPECT_EQ(session.Step(tokens, 100, 5), twin.Step(tokens, 100, 5));
  // One that was restored is rolled back and forked as any.
  ASSERT_TRUE(session.Rollback(70).ok());
  ASSERT_TRUE(twin.Rollback(70).ok());
  EXPECT_EQ(session.Step(others, 70, 3), twin.Step(others, 70, 3));
  ASSERT_TRUE(session.Fork(std::nullopt, &forked).ok());
  TestSession second(*server_, forked.session_id(), forked.epoch(), 73);
  EXPECT_EQ(second.Step(tokens, 73, 2), twin.Step(tokens, 73, 2));
}

// Two sessions that fit one at a time take turns in memory.
TEST_F(SessionSpill, SessionsThatDoNotFitTogetherTakeTurns) {
  options_.session_spill_after = absl::Milliseconds(1);
  // Four blocks of 64 tokens, and two sessions without any.
  options_.max_session_bytes = 36 << 10;
  Restart();
  const SequenceTokens tokens(kSpillShape, 6);
  const auto open = OpenFor(kSpillShape, RotarySpec());
  std::vector<TestSession> sessions;
  std::vector<TestSession> twins;
  for (int i = 0; i < 2; ++i) {
    sessions.emplace_back(*server_, open);
    twins.emplace_back(undisturbed_, open);
    sessions[i].Step(tokens, i, 190);
    twins[i].Step(tokens, i, 190);
    AwaitSpill(sessions[i]);
  }
  for (int64_t turn = 0; turn < 3; ++turn) {
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t at = 190 + turn * 10;
      auto& session = sessions[static_cast<size_t>(i)];
      EXPECT_EQ(session.Step(tokens, at + i, 1),
                twins[static_cast<size_t>(i)].Step(tokens, at + i, 1));
      AwaitSpill(session);
    }
  }
}

TEST_F(SessionSpill, ADamagedFileIsRefusedAndCostsNobodyElse) {
  options_ = TestOptionsWithMetrics();
  options_.session_dir = folder_.File("sessions");
  Restart();
  const SequenceTokens tokens(kSpillShape, 7);
  TestSession bad(*server_, OpenFor(kSpillShape, CausalSpec()));
  TestSession good(*server_, OpenFor(kSpillShape, CausalSpec()));
  TestSession twin(undisturbed_, OpenFor(kSpillShape, CausalSpec()));
  bad.Step(tokens, 0, 70);
  good.Step(tokens, 0, 70);
  twin.Step(tokens, 0, 70);
  server_->Stop();
  server_.reset();
  {
    std::fstream file(FileOf(bad),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-100, std::ios::end);
    const auto at = file.tellp();
    const auto byte = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }
  server_ = std::make_unique<RunningServer>(options_);
  EXPECT_EQ(server_->MetricValue("attn_kv_spilled_sessions"), 2);
  TestSession lost = Again(bad);
  wire::StepRequest request = lost.Next();
  tokens.AddTo(request, 70, 1);
  wire::StepResponse response;
  grpc::Status status = lost.Send(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(status), "SESSION_DAMAGED");
  status = lost.Send(request, &response);
  EXPECT_EQ(ReasonIn(status), "SESSION_NOT_HERE");
  EXPECT_EQ(Again(good).Step(tokens, 70, 1), twin.Step(tokens, 70, 1));
  EXPECT_EQ(
      server_->MetricValue("attn_kv_spill_errors_total{reason=\"damaged\"}"),
      1);
  EXPECT_EQ(server_->MetricValue("attn_kv_restores_total"), 1);
  EXPECT_EQ(server_->MetricValue("attn_kv_spilled_bytes"), 0);
}

TEST_F(SessionSpill, WhatIsClosedOnDiskIsGoneFromThere) {
  TestSession before(*server_, OpenFor(kSpillShape, CausalSpec()));
  before.Step(SequenceTokens(kSpillShape, 8), 0, 10);
  Restart();
  TestSession session = Again(before);
  EXPECT_TRUE(std::filesystem::exists(FileOf(session)));
  EXPECT_TRUE(session.Close().ok());
  EXPECT_FALSE(std::filesystem::exists(FileOf(session)));
  Restart();
  TestSession closed = Again(before);
  wire::StepRequest request = closed.Next();
  SequenceTokens(kSpillShape, 8).AddTo(request, 10, 1);
  wire::StepResponse response;
  EXPECT_EQ(ReasonIn(closed.Send(request, &response)), "SESSION_NOT_HERE");
}

TEST_F(SessionSpill, TwoServersCannotHaveOneFolder) {
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  const auto second = Server::Start(options_, log);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("--session-dir=" + options_.session_dir));
}

}  // namespace
}  // namespace attn
