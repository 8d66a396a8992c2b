// Whoever else is served beside a call, however many workers there are: its
// answer keeps its bits.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

constexpr int kMostWorkers = 4;

struct Subject {
  const char* name;
  wire::AttendRequest request;
};

wire::AttendRequest Asking(const TestShape& shape, uint32_t seed) {
  wire::AttendRequest request = RandomRequest(shape, seed);
  request.add_outputs(wire::OUTPUT_OUTPUT);
  request.add_outputs(wire::OUTPUT_LSE);
  return request;
}

// Calls of one shape and several specs, and of several shapes.
std::vector<Subject> Subjects(uint32_t seed) {
  const TestShape small = {.q_heads = 4, .q_length = 3, .kv_length = 33};
  const TestShape decode = {.q_length = 1, .kv_length = 700, .dim = 64};
  const TestShape long_rows = {.q_length = 70, .kv_length = 190, .dim = 32};
  wire::AttendRequest causal = Asking(long_rows, seed + 1);
  causal.mutable_spec()->add_masks()->mutable_causal()->set_alignment(
      wire::ALIGNMENT_BOTTOM_RIGHT);
  wire::AttendRequest weights = Asking(small, seed + 2);
  weights.add_outputs(wire::OUTPUT_WEIGHTS);
  wire::AttendRequest sparse = RandomRequest(small, seed + 3);
  sparse.mutable_spec()->mutable_normalizer()->mutable_sparsemax();
  return {{"small", Asking(small, seed)},
          {"small again", Asking(small, seed + 4)},
          {"decode", Asking(decode, seed + 5)},
          {"causal", causal},
          {"weights", weights},
          {"sparse", sparse}};
}

std::string BitsOf(PendingCall& call) {
  const grpc::Status& status = call.Wait();
  EXPECT_TRUE(status.ok()) << status.error_message();
  wire::AttendResponse response;
  EXPECT_TRUE(call.Parse(response));
  // Its times differ.
  response.clear_report();
  return response.SerializeAsString();
}

// Sends all before it waits for any; what each was answered.
std::vector<std::string> SentTogether(
    RunningServer& server, const std::vector<wire::AttendRequest>& requests) {
  std::vector<std::unique_ptr<PendingCall>> calls;
  for (const wire::AttendRequest& request : requests) {
    calls.push_back(std::make_unique<PendingCall>(server.Connect(), kAttendPath,
                                                  ToRequest(request)));
  }
  for (const auto& call : calls) call->Start();
  std::vector<std::string> bits;
  bits.reserve(calls.size());
  for (const auto& call : calls) bits.push_back(BitsOf(*call));
  return bits;
}

// The subject between its mates: first, in the middle and last.
std::vector<wire::AttendRequest> Among(const wire::AttendRequest& subject,
                                       const std::vector<Subject>& mates) {
  std::vector<wire::AttendRequest> all = {subject};
  for (const Subject& mate : mates) {
    all.push_back(mate.request);
    if (all.size() == mates.size() / 2) all.push_back(subject);
  }
  all.push_back(subject);
  return all;
}

class BatchMates : public ::testing::TestWithParam<int> {
 protected:
  static ServerOptions Options(int workers) {
    ServerOptions options = TestOptions();
    options.compute_threads = workers;
    return options;
  }

  // The answer of a server that has nothing else to do.
  std::string Alone(const wire::AttendRequest& request) {
    return SentTogether(idle_, {request}).front();
  }

  void ExpectSameBits(const Subject& subject,
                      const std::vector<wire::AttendRequest>& together) {
    const std::string alone = Alone(subject.request);
    const std::vector<std::string> bits = SentTogether(server_, together);
    const std::string sent = subject.request.SerializeAsString();
    for (size_t i = 0; i < together.size(); ++i) {
      if (together[i].SerializeAsString() != sent) continue;
      EXPECT_TRUE(bits[i] == alone)
          << subject.name << " at " << i << " of " << together.size();
    }
  }

  RunningServer idle_{Options(1)};
  RunningServer server_{Options(GetParam())};
};

TEST_P(BatchMates, ThatAreTheSameCallChangeNoBits) {
  constexpr size_t kTwins = 8;
  for (const Subject& subject : Subjects(1)) {
    ExpectSameBits(subject,
                   std::vector<wire::AttendRequest>(kTwins, subject.request));
  }
}

// B against B': two different companies, not only company against none.
TEST_P(BatchMates, ThatAreOtherCallsChangeNoBitsWhoeverTheyAre) {
  const std::vector<Subject> these = Subjects(100);
  const std::vector<Subject> others = Subjects(200);
  for (const Subject& subject : Subjects(1)) {
    ExpectSameBits(subject, Among(subject.request, these));
    ExpectSameBits(subject, Among(subject.request, others));
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, BatchMates,
                         ::testing::Range(1, kMostWorkers + 1));

}  // namespace
}  // namespace attn
