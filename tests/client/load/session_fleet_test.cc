// Sessions of a load, on a server in this process.
#include "client/load/session_fleet.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "client/library/session_client.h"
#include "client/load/server_target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "server/rpc/line_log.h"

namespace attn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kSessions = 3;
constexpr int64_t kStepTokens = 2;

// 20 first tokens in chunks of 8, steps of two.
CallClass Decode() {
  CallClass decode{.name = "decode", .payloads = 2};
  decode.call.shape = ParseCallShape("1,4,2,2,20,8").value();
  decode.call.kind = CallKind::kSession;
  decode.call.causal = true;
  decode.call.sessions = {.sessions = kSessions, .chunk = 8};
  return decode;
}

// Waits for the outcomes of steps.
class Outcomes {
 public:
  CallDone Next() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++expected_;
    return [this](const CallOutcome& outcome) {
      const std::lock_guard<std::mutex> adding(mutex_);
      outcomes_.push_back(outcome);
      changed_.notify_all();
    };
  }
  std::vector<CallOutcome> Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return outcomes_.size() == expected_; });
    expected_ = 0;
    return std::exchange(outcomes_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t expected_ = 0;
  std::vector<CallOutcome> outcomes_;
};

MATCHER(IsOk, "") { return arg.code == absl::StatusCode::kOk; }

class SessionFleetTest : public ::testing::Test {
 protected:
  SessionFleetTest() : log_(LogFormat::kText, [](const std::string&) {}) {}

  void Serve(ServerOptions options = {}) {
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.compute_threads = 1;
    options.drain_delay = absl::ZeroDuration();
    options.log_requests = false;
    auto server = Server::Start(options, log_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const std::string& address = server_->grpc_addresses()[0];
    channels_ = {RawChannel::Create({.address = address}).value()};
    client_ = std::make_unique<SessionClient>(
        SessionClient::Connect({.address = address}).value());
  }

  absl::Status Begin(const CallClass& of, bool in_turn = false,
                     const std::stop_token& stop = {}) {
    auto fleet = SessionFleet::Create(of, {.verify_every = 1});
    if (!fleet.ok()) return fleet.status();
    fleet_ = *std::move(fleet);
    return fleet_->Begin(
        {.channels = channels_, .in_turn = in_turn, .timer = timer_}, stop);
  }

  // Asks for so many steps, all at once.
  std::vector<CallOutcome> Step(int count) {
    for (int i = 0; i < count; ++i) {
      fleet_->Step({.intended = timer_.Now(), .measured = true},
                   outcomes_.Next());
    }
    return outcomes_.Wait();
  }

  std::vector<v1::SessionInfo> OnServer() {
    auto sessions = client_->List();
    EXPECT_TRUE(sessions.ok()) << sessions.status();
    return sessions.ok() ? *sessions : std::vector<v1::SessionInfo>();
  }

  // Ends the run: whatever happened, none is left.
  SessionTally End() {
    SessionTally tally = fleet_->End();
    EXPECT_TRUE(OnServer().empty());
    EXPECT_EQ(tally.opened, tally.closed + tally.gone + tally.left);
    return tally;
  }

  LineLog log_;
  std::unique_ptr<Server> server_;
  std::vector<RawChannel> channels_;
  std::unique_ptr<SessionClient> client_;
  MonotonicTimer timer_;
  std::unique_ptr<SessionFleet> fleet_;
  Outcomes outcomes_;
};

int64_t StepsOf(const SessionTally& tally) {
  int64_t steps = 0;
  for (const HdrHistogram& place : tally.steps) steps += place.count();
  return steps;
}

TEST_F(SessionFleetTest, SessionsHaveTheirFirstTokensBeforeTheRun) {
  Serve();
  CallClass decode = Decode();
  decode.call.sessions.layers = 2;
  decode.call.sessions.kv_dtype = DType::kBF16;
  ASSERT_TRUE(Begin(decode).ok());
  const auto sessions = OnServer();
  ASSERT_EQ(sessions.size(), size_t{kSessions});
  for (const v1::SessionInfo& session : sessions) {
    EXPECT_THAT(session.lengths(), ::testing::ElementsAre(20, 20));
    // 8 + 8 + 4.
    EXPECT_EQ(session.next_step(), 3U);
    EXPECT_EQ(session.kv_dtype(), v1::DATA_TYPE_BF16);
  }
  const SessionTally tally = End();
  EXPECT_EQ(tally.opened, kSessions);
  EXPECT_EQ(tally.closed, kSessions);
  EXPECT_EQ(tally.open.count(), kSessions);
  EXPECT_EQ(tally.close.count(), kSessions);
  EXPECT_EQ(tally.prefill.count(), 3 * kSessions);
}

TEST_F(SessionFleetTest, StepsAreOfEachSessionAndAgree) {
  Serve();
  for (const bool stream : {false, true}) {
    for (const bool in_turn : {false, true}) {
      CallClass decode = Decode();
      decode.call.sessions.stream = stream;
      ASSERT_TRUE(Begin(decode, in_turn).ok());
      constexpr int kSteps = 5 * kSessions;
      EXPECT_THAT(Step(kSteps), Each(IsOk()));
      if (in_turn) {
        for (const v1::SessionInfo& session : OnServer()) {
          EXPECT_EQ(session.lengths(0), 20 + 5 * kStepTokens);
        }
      }
      const Verification agreed = fleet_->FinishVerification();
      // At each position all but the first are held against it.
      if (in_turn) {
        EXPECT_EQ(agreed.verified, kSteps - 5);
      }
      EXPECT_EQ(agreed.mismatches, 0) << agreed.first_mismatch;
      const SessionTally tally = End();
      EXPECT_EQ(StepsOf(tally), kSteps);
      EXPECT_EQ(tally.tokens, kSteps * kStepTokens);
      EXPECT_EQ(tally.lost, 0);
      if (in_turn) {
        EXPECT_EQ(SpreadOf(tally).fewest_steps, 5);
        EXPECT_EQ(SpreadOf(tally).places, kSessions);
      }
    }
  }
}

TEST_F(SessionFleetTest, ForksBeginWithWhatIsSharedAndHaveItsBits) {
  Serve();
  CallClass decode = Decode();
  decode.call.sessions.shared = 12;
  ASSERT_TRUE(Begin(decode, /*in_turn=*/true).ok());
  EXPECT_EQ(OnServer().size(), size_t{kSessions} + 1);
  EXPECT_THAT(Step(kSessions), Each(IsOk()));
  const SessionTally tally = End();
  EXPECT_EQ(tally.opened, kSessions + 1);
  EXPECT_EQ(tally.forked, kSessions);
  // Shared: 8 + 4; each fork: 4 + 4.
  EXPECT_EQ(tally.prefill.count(), 2 + 2 * kSessions);
  EXPECT_EQ(fleet_->FinishVerification().mismatches, 0);
}

TEST_F(SessionFleetTest, WhatIsSharedMayBeLost) {
  Serve();
  CallClass decode = Decode();
  decode.call.sessions = {.sessions = 1, .chunk = 8, .shared = 12, .steps = 1};
  ASSERT_TRUE(Begin(decode).ok());
  for (const v1::SessionInfo& session : OnServer()) {
    if (session.lengths(0) == 12) {
      EXPECT_TRUE(client_->Close(session.session_id()).value());
    }
  }
  // The first step ends the fork, and the session after it brings all tokens.
  EXPECT_THAT(Step(2), Each(IsOk()));
  const SessionTally tally = End();
  EXPECT_EQ(tally.lost, 1);
  EXPECT_EQ(tally.gone, 1);
  EXPECT_EQ(tally.forked, 1);
  EXPECT_EQ(fleet_->FinishVerification().mismatches, 0);
}

TEST_F(SessionFleetTest, ASessionThatIsGoneIsCountedAndReplaced) {
  Serve();
  for (const bool stream : {false, true}) {
    CallClass decode = Decode();
    decode.call.sessions.stream = stream;
    ASSERT_TRUE(Begin(decode, /*in_turn=*/true).ok());
    EXPECT_TRUE(client_->Close(OnServer().at(1).session_id()).value());
    const std::vector<CallOutcome> first = Step(kSessions);
    int lost = 0;
    for (const CallOutcome& outcome : first) {
      if (outcome.code == absl::StatusCode::kOk) continue;
      ++lost;
      EXPECT_EQ(outcome.code, absl::StatusCode::kNotFound);
      EXPECT_EQ(outcome.reason, "SESSION_NOT_HERE");
    }
    EXPECT_EQ(lost, 1);
    EXPECT_THAT(Step(kSessions), Each(IsOk()));
    const SessionTally tally = End();
    EXPECT_EQ(tally.lost, 1);
    EXPECT_EQ(tally.gone, 1);
    EXPECT_EQ(tally.opened, kSessions + 1);
    EXPECT_EQ(StepsOf(tally), 2 * kSessions - 1);
    EXPECT_FALSE(SessionFailures(tally, 0).empty());
  }
}

TEST_F(SessionFleetTest, ASessionEndsAfterItsSteps) {
  Serve();
  CallClass decode = Decode();
  decode.call.sessions = {.sessions = 1, .chunk = 32, .steps = 2};
  ASSERT_TRUE(Begin(decode).ok());
  EXPECT_THAT(Step(6), Each(IsOk()));
  const SessionTally tally = End();
  // Three of two steps, and perhaps one that was opened after the last.
  EXPECT_GE(tally.opened, 3);
  EXPECT_LE(tally.opened, 4);
  EXPECT_EQ(tally.closed, tally.opened);
  EXPECT_EQ(tally.lost, 0);
  // Each makes the same two steps.
  EXPECT_EQ(fleet_->FinishVerification().verified, 4);
}

TEST_F(SessionFleetTest, WhatCannotBeOpenedIsAnErrorAndLeavesNoneOpen) {
  ServerOptions options;
  // Two blocks of 64 tokens of two heads, in F32: one for each session.
  options.max_session_bytes = 2 * 64 * 2 * (8 + 8) * 4;
  Serve(options);
  const absl::Status status = Begin(Decode());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(OnServer().empty());
}

TEST_F(SessionFleetTest, AStopEndsTheOpening) {
  Serve();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Begin(Decode(), false, stop.get_token()).code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(OnServer().empty());
}

TEST_F(SessionFleetTest, AServerThatIsGoneFailsStepsAndLeavesNothingWaiting) {
  Serve();
  ASSERT_TRUE(Begin(Decode()).ok());
  server_->Stop();
  server_.reset();
  for (const CallOutcome& outcome : Step(2 * kSessions)) {
    EXPECT_EQ(outcome.code, absl::StatusCode::kUnavailable);
  }
  const SessionTally tally = fleet_->End();
  EXPECT_EQ(tally.left, kSessions);
  EXPECT_EQ(tally.opened, kSessions);
}

TEST_F(SessionFleetTest, AMixOfSessionsAndCallsAddsUp) {
  Serve();
  CallClass call{.name = "call", .payloads = 1};
  call.call.shape = ParseCallShape("1,2,1,4,4,8").value();
  const auto target = ServerTarget::Create(
      {.address = server_->grpc_addresses()[0], .verify_every = 1},
      {call, Decode()});
  ASSERT_TRUE(target.ok()) << target.status();
  const LoadOptions options{.seed = 3,
                            .weights = {1, 1},
                            .callers = 4,
                            .duration = absl::Milliseconds(300),
                            .warmup = absl::Milliseconds(50)};
  ASSERT_TRUE((*target)->Probe().ok());
  ASSERT_TRUE((*target)->Begin(options, timer_, {}).ok());
  const LoadResult result = RunLoad(options, (*target)->Call(), timer_);
  const auto tallies = (*target)->End();
  ASSERT_EQ(tallies.size(), 2U);
  EXPECT_FALSE(tallies[0].has_value());
  ASSERT_TRUE(tallies[1].has_value());
  EXPECT_EQ(result.error_count(), 0);
  EXPECT_GT(result.classes.at(1).answered, 0);
  EXPECT_EQ(StepsOf(*tallies[1]), result.classes[1].answered);
  EXPECT_EQ(tallies[1]->tokens, result.classes[1].answered * kStepTokens);
  EXPECT_EQ(tallies[1]->closed, kSessions);
  EXPECT_EQ(result.classes[1].server_compute.count(),
            result.classes[1].answered);
  for (const Verification& found : (*target)->FinishVerification()) {
    EXPECT_EQ(found.mismatches, 0) << found.first_mismatch;
  }
  EXPECT_TRUE(OnServer().empty());
}

TEST(AnswerAgreement, FindsAnAnswerThatIsUnlikeTheFirstAtItsPosition) {
  const auto answer = [](char byte) {
    StepResult result;
    ResponseTensor& tensor = result.tensors.emplace_back();
    tensor.data = AlignedBuffer(8);
    std::fill_n(tensor.data.data(), 8, static_cast<std::byte>(byte));
    return result;
  };
  AnswerAgreement agreement;
  agreement.Offer(4, answer('a'));
  agreement.Offer(4, answer('a'));
  agreement.Offer(5, answer('b'));
  EXPECT_EQ(agreement.Finish().mismatches, 0);
  agreement.Offer(4, answer('b'));
  agreement.Offer(5, answer('b'));
  const Verification found = agreement.Finish();
  EXPECT_EQ(found.verified, 2);
  EXPECT_EQ(found.mismatches, 1);
  EXPECT_THAT(found.first_mismatch, HasSubstr("4 tokens"));
}

}  // namespace
}  // namespace attn
