#include "client/load/server_target.h"

#include <memory>
#include <utility>

#include "client/library/call_status.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "server/rpc/line_log.h"

namespace attn {
namespace {

CallProfile Tiny() {
  return {.shape = ParseCallShape("1,2,1,4,4,8").value(), .causal = true};
}

// A real server on a port of its own.
class ServerTargetTest : public ::testing::Test {
 protected:
  ServerTargetTest() : log_(LogFormat::kText, [](const std::string&) {}) {}

  void Serve(ServerOptions options = {}) {
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.compute_threads = 1;
    options.drain_delay = absl::ZeroDuration();
    options.log_requests = false;
    auto server = Server::Start(options, log_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::unique_ptr<ServerTarget> Target(const CallProfile& profile,
                                       int verify_every) {
    auto target =
        ServerTarget::Create({.address = server_->grpc_addresses()[0],
                              .connections = 2,
                              .deadline = absl::Seconds(60),
                              .verify_every = verify_every},
                             {CallClass{.call = profile, .payloads = 3}});
    EXPECT_TRUE(target.ok()) << target.status();
    return *std::move(target);
  }

  LineLog log_;
  std::unique_ptr<Server> server_;
};

LoadOptions Short(double rate, int callers) {
  return {.rate = rate,
          .callers = callers,
          .duration = absl::Milliseconds(400),
          .warmup = absl::Milliseconds(100)};
}

void ExpectAllAnswered(const LoadResult& result) {
  EXPECT_GT(result.offered, 0);
  EXPECT_EQ(result.answered + result.unsent, result.offered);
  EXPECT_EQ(result.error_count(), 0);
  EXPECT_EQ(result.latency.count(), result.offered);
  EXPECT_EQ(result.service.count(), result.answered);
  EXPECT_EQ(result.server_queue.count(), result.answered);
  EXPECT_EQ(result.server_compute.count(), result.answered);
  EXPECT_GT(result.server_compute.max(), 0);
}

TEST_F(ServerTargetTest, OpenLoopMeasuresAndVerifiesARealServer) {
  Serve();
  const auto target = Target(Tiny(), 1);
  ASSERT_TRUE(target->Probe().ok());
  MonotonicTimer timer;
  const LoadResult result = RunLoad(Short(50, 0), target->Call(), timer);
  ExpectAllAnswered(result);
  const Verification verification = target->FinishVerification().at(0);
  EXPECT_EQ(verification.verified + verification.skipped,
            result.answered + result.warmup_requests);
  EXPECT_GT(verification.verified, 0);
  EXPECT_EQ(verification.mismatches, 0) << verification.first_mismatch;
}

TEST_F(ServerTargetTest, ClosedLoopMeasuresARealServer) {
  Serve();
  const auto target = Target(Tiny(), 0);
  MonotonicTimer timer;
  const LoadResult result = RunLoad(Short(0, 3), target->Call(), timer);
  ExpectAllAnswered(result);
  EXPECT_EQ(target->FinishVerification().at(0).verified, 0);
}

TEST_F(ServerTargetTest, RefusalsAreCountedByTheirCode) {
  ServerOptions options;
  options.max_message_bytes = 1 << 20;
  options.max_inflight_bytes = 1 << 20;
  Serve(options);
  CallProfile large;
  large.shape = ParseCallShape("1,8,8,512,512,64").value();
  const auto target = Target(large, 0);
  EXPECT_FALSE(target->Probe().ok());
  MonotonicTimer timer;
  const LoadResult result = RunLoad(Short(20, 0), target->Call(), timer);
  EXPECT_EQ(result.answered, 0);
  EXPECT_EQ(
      result.errors.at(absl::StatusCode::kResourceExhausted) + result.unsent,
      result.offered);
  EXPECT_FALSE(result.KeptUp());
}

TEST_F(ServerTargetTest, ProbeSaysThatNobodyIsThere) {
  Serve();
  const auto target = Target(Tiny(), 0);
  server_->Stop();
  server_.reset();
  EXPECT_TRUE(IsUnreachable(target->Probe()));
}

TEST_F(ServerTargetTest, AMixOfKindsIsAnsweredAndVerifiedByClass) {
  Serve();
  CallClass attends{.name = "tiny", .call = Tiny(), .payloads = 2};
  CallClass inspects{.name = "look", .call = Tiny(), .payloads = 2};
  inspects.call.kind = CallKind::kInspect;
  inspects.call.priority = v1::PRIORITY_LOW;
  inspects.call.question.views.weights = true;
  auto target = ServerTarget::Create(
      {.address = server_->grpc_addresses()[0], .verify_every = 1},
      {attends, inspects});
  ASSERT_TRUE(target.ok()) << target.status();
  ASSERT_TRUE((*target)->Probe().ok());
  LoadOptions options = Short(100, 0);
  options.weights = {1, 1};
  options.seed = 2;
  MonotonicTimer timer;
  const LoadResult result = RunLoad(options, (*target)->Call(), timer);
  ExpectAllAnswered(result);
  for (const CallTally& tally : result.classes) {
    EXPECT_GT(tally.offered, 0);
    // Both kinds of answers tell the server's times.
    EXPECT_EQ(tally.server_compute.count(), tally.answered);
  }
  const auto verification = (*target)->FinishVerification();
  ASSERT_EQ(verification.size(), 2u);
  EXPECT_GT(verification[0].verified + verification[0].skipped, 0);
  EXPECT_EQ(verification[0].mismatches, 0) << verification[0].first_mismatch;
  EXPECT_EQ(verification[1].verified, 0);
  // Each finish counts from the last.
  EXPECT_EQ((*target)->FinishVerification()[0].verified, 0);
}

TEST_F(ServerTargetTest, AClassWithASpecIsVerifiedAgainstThatSpec) {
  Serve();
  CallProfile profile = Tiny();
  profile.stages.softcap = 0.5;
  const auto target = Target(profile, 1);
  MonotonicTimer timer;
  ExpectAllAnswered(RunLoad(Short(0, 1), target->Call(), timer));
  const Verification verification = target->FinishVerification().at(0);
  EXPECT_GT(verification.verified, 0);
  EXPECT_EQ(verification.mismatches, 0) << verification.first_mismatch;
}

TEST_F(ServerTargetTest, TheDeadlineOfAClassIsItsOwn) {
  Serve();
  CallClass late{.name = "late",
                 .call = Tiny(),
                 .payloads = 1,
                 .deadline = absl::Nanoseconds(1)};
  auto target = ServerTarget::Create(
      {.address = server_->grpc_addresses()[0], .verify_every = 0}, {late});
  ASSERT_TRUE(target.ok());
  EXPECT_EQ((*target)->Probe().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ServerTargetTest, AnErrorNamesTheClassOfAMix) {
  Serve();
  CallClass good{.name = "good", .call = Tiny()};
  CallClass bad{.name = "bad", .call = Tiny()};
  bad.call.shape = ParseCallShape("1,3,2,4,4,8").value();
  const auto target = ServerTarget::Create(
      {.address = server_->grpc_addresses()[0]}, {good, bad});
  EXPECT_EQ(target.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(target.status().message().find("class bad"), std::string::npos);
}

TEST(AnswerVerifier, FindsAWrongAnswer) {
  std::vector<HostTensor> expected;
  expected.emplace_back(DType::kF64, Shape{1, 1, 1, 1});
  expected.emplace_back(DType::kF64, Shape{1, 1, 1, 1});
  expected[1].Set(0, 2);
  v1::AttendResponse response;
  v1::Tensor* output = response.mutable_output();
  output->set_dtype(v1::DATA_TYPE_F64);
  for (int i = 0; i < 4; ++i) output->add_shape(1);
  output->set_data(std::string(sizeof(double), '\0'));
  const grpc::Slice slice(response.SerializeAsString());
  AnswerVerifier verifier(std::move(expected));
  verifier.Offer(0, grpc::ByteBuffer(&slice, 1));
  verifier.Offer(1, grpc::ByteBuffer(&slice, 1));
  const Verification counts = verifier.Finish();
  EXPECT_EQ(counts.verified, 2);
  EXPECT_EQ(counts.mismatches, 1);
  EXPECT_NE(counts.first_mismatch.find("expected 2"), std::string::npos);
}

}  // namespace
}  // namespace attn
