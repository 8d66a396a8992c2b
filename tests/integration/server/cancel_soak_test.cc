// Deadlines, cancellations and lost connections at any moment of a call's life,
// between calls of every size and method, good and bad ones.
//
//   ATTN_SOAK_CALLS=1000000   as many calls as that, in all
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/server/cut_connection.h"
#include "tests/integration/server/inspecting.h"
#include "tests/integration/server/pending_call.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int kClients = 4;

int SoakCalls() {
  // Before any thread exists.
  const char* asked = std::getenv(  // NOLINT(concurrency-mt-unsafe)
      "ATTN_SOAK_CALLS");
  return asked == nullptr ? 600 : std::atoi(asked);
}

// One kind of call, and the share of the calls that are of it.
struct Kind {
  const char* name;
  const char* method;
  grpc::ByteBuffer request;
  int share;
  // Of the right answer, without its report; none: the call is refused.
  std::optional<std::string> answer;
  // How long it took on the idle server.
  nanoseconds service{};
};

template <typename Response>
std::string AnswerOf(PendingCall& call) {
  Response response;
  EXPECT_TRUE(call.Parse(response));
  response.clear_report();
  return response.SerializeAsString();
}

std::string AnswerOf(PendingCall& call, const std::string& method) {
  if (method == kInspectPath) return AnswerOf<wire::InspectResponse>(call);
  if (method == kAttendBackwardPath) {
    return AnswerOf<wire::AttendBackwardResponse>(call);
  }
  return AnswerOf<wire::AttendResponse>(call);
}

wire::AttendBackwardRequest BackwardOf(const wire::AttendRequest& call) {
  wire::AttendBackwardRequest request;
  *request.mutable_q() = call.q();
  *request.mutable_k() = call.k();
  *request.mutable_v() = call.v();
  *request.mutable_d_output() = call.q();
  return request;
}

std::vector<Kind> AllKinds() {
  const wire::AttendRequest tiny = RandomRequest({}, 1);
  const wire::AttendRequest medium =
      RandomRequest({.q_length = 96, .kv_length = 96, .dim = 32}, 2);
  const wire::AttendRequest large = RandomRequest({.q_heads = 4,
                                                   .kv_heads = 4,
                                                   .q_length = 256,
                                                   .kv_length = 256,
                                                   .dim = 64},
                                                  3);
  wire::InspectRequest inspect = InspectOf(medium);
  inspect.add_views(wire::INSPECT_VIEW_WEIGHTS);
  wire::AttendRequest unfitting = tiny;
  unfitting.mutable_k()->mutable_shape()->Set(3, 9);
  const grpc::Slice noise(std::string(100, '\xff'));
  return {{"tiny", kAttendPath, ToRequest(tiny), 40, "", {}},
          {"medium", kAttendPath, ToRequest(medium), 20, "", {}},
          {"large", kAttendPath, ToRequest(large), 5, "", {}},
          {"backward",
           kAttendBackwardPath,
           ToRequest(BackwardOf(medium)),
           10,
           "",
           {}},
          {"inspect", kInspectPath, ToRequest(inspect), 10, "", {}},
          {"unfitting", kAttendPath, ToRequest(unfitting), 10, {}, {}},
          {"malformed", kAttendPath, grpc::ByteBuffer(&noise, 1), 5, {}, {}}};
}

// The right answer, always the same, and the time of it.
void LearnAlone(RunningServer& server, Kind& kind) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const auto start = steady_clock::now();
    PendingCall call(server.Connect(), kind.method, kind.request);
    call.Start();
    const grpc::Status& status = call.Wait();
    kind.service = steady_clock::now() - start;
    if (!kind.answer.has_value()) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    } else {
      EXPECT_TRUE(status.ok()) << kind.name << ": " << status.error_message();
      if (!status.ok()) continue;
      const std::string answer = AnswerOf(call, kind.method);
      if (!kind.answer->empty()) {
        EXPECT_EQ(answer, kind.answer) << kind.name;
      }
      kind.answer = answer;
    }
  }
}

enum class Fate { kServed, kDeadline, kCancelled, kCut };

Fate RandomFate(std::minstd_rand& random) {
  // Of 16: a connection is dear.
  const auto draw = random() % 16;
  if (draw == 0) return Fate::kCut;
  if (draw < 4) return Fate::kServed;
  return draw < 10 ? Fate::kDeadline : Fate::kCancelled;
}

// May a call that was not served end so?
bool IsExcused(Fate fate, grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return true;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return fate == Fate::kDeadline;
    case grpc::StatusCode::CANCELLED:
      return fate == Fate::kCancelled;
    case grpc::StatusCode::UNAVAILABLE:
      return fate == Fate::kCut;
    default:
      return false;
  }
}

// A client: calls one after the other, over a connection of its own.
class Client {
 public:
  Client(const std::string& address, const std::vector<Kind>& kinds,
         uint32_t seed)
      : address_(address), kinds_(kinds), random_(seed) {
    for (const Kind& kind : kinds) shares_.push_back(kind.share);
  }

  void Call() {
    std::discrete_distribution<size_t> any(shares_.begin(), shares_.end());
    const Kind& kind = kinds_[any(random_)];
    const Fate fate = RandomFate(random_);
    // From nothing to twice what the call takes.
    const nanoseconds patience(
        random_() % (2 * static_cast<uint64_t>(kind.service.count())));
    if (fate == Fate::kCut) {
      const CutConnection connection(address_);
      PendingCall call(connection.channel(), kind.method, kind.request);
      call.Start();
      if (!call.WaitFor(patience)) connection.Cut();
      Check(call, kind, fate);
      return;
    }
    if (channel_ == nullptr) channel_ = RunningServer::Connect(address_);
    PendingCall call(channel_, kind.method, kind.request);
    if (fate == Fate::kDeadline) {
      call.context().set_deadline(std::chrono::system_clock::now() + patience);
    }
    call.Start();
    // The channel may go before its call.
    if (random_() % 64 == 0) channel_.reset();
    if (fate == Fate::kCancelled && !call.WaitFor(patience)) call.Cancel();
    Check(call, kind, fate);
  }

 private:
  static void Check(PendingCall& call, const Kind& kind, Fate fate) {
    const grpc::Status& status = call.Wait();
    EXPECT_EQ(call.ends(), 1);
    if (status.ok()) {
      // Whoever else was served, left or was refused meanwhile.
      EXPECT_EQ(AnswerOf(call, kind.method), kind.answer) << kind.name;
      return;
    }
    const bool refused =
        !kind.answer.has_value() &&
        status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
    EXPECT_TRUE(refused || IsExcused(fate, status.error_code()))
        << kind.name << ": " << status.error_code() << ": "
        << status.error_message();
  }

  const std::string address_;
  const std::vector<Kind>& kinds_;
  std::vector<int> shares_;
  std::minstd_rand random_;
  std::shared_ptr<grpc::Channel> channel_;
};

void Soak(RunningServer& server, const std::vector<Kind>& kinds, int calls) {
  std::atomic<int> left{calls};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&server, &kinds, &left, i] {
      Client client(server.address(), kinds, i + 1);
      while (left.fetch_sub(1) > 0) client.Call();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CancelSoak, NoCallIsLostOrRepliedToTwice) {
  ServerOptions options = TestOptionsWithMetrics();
  // Some calls wait, some are refused.
  options.max_batch_tokens = 64;
  options.max_queue_size = 2;
  RunningServer server(options);
  std::vector<Kind> kinds = AllKinds();
  for (Kind& kind : kinds) LearnAlone(server, kind);
  ASSERT_FALSE(::testing::Test::HasFailure());
  Soak(server, kinds, SoakCalls());
  // A cancelled call leaves a moment later.
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 0), 0);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
  EXPECT_EQ(server.MetricValue("attn_queue_depth"), 0);
  for (Kind& kind : kinds) LearnAlone(server, kind);
}

}  // namespace
}  // namespace attn
