// Sessions through the JSON gateway beside gRPC: one session for both.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/page_client.h"
#include "tests/integration/server/session_client.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

constexpr TestShape kPageShape = {.batch = 1,
                                  .q_heads = 4,
                                  .kv_heads = 2,
                                  .q_length = 70,
                                  .kv_length = 70,
                                  .dim = 8};
constexpr char kSessions[] = "/v1/sessions";

class SessionsOverHttp : public ::testing::Test {
 protected:
  explicit SessionsOverHttp(const ServerOptions& options = PageOptions())
      : server_(options), client_(PagePort(server_.server())) {}

  HttpReply Post(const std::string& target,
                 const google::protobuf::Message& request) {
    return client_.Call(JsonCall(target, JsonOf(request)));
  }
  static std::string PathOfSession(const std::string& id) {
    return absl::StrCat(kSessions, "/", id);
  }
  wire::OpenSessionResponse Open(const wire::OpenSessionRequest& request) {
    wire::OpenSessionResponse opened;
    ReadReply(Post(kSessions, request), opened);
    return opened;
  }
  // What HTTP and gRPC both tell of a session; but for times.
  wire::SessionInfo Described(TestSession& session) {
    wire::GetSessionResponse described;
    ReadReply(client_.Call({.target = PathOfSession(session.id())}), described);
    wire::SessionInfo info = described.session();
    wire::SessionInfo expected = session.Info();
    for (wire::SessionInfo* one : {&info, &expected}) {
      one->clear_idle_ms();
      one->clear_age_ms();
    }
    EXPECT_EQ(info.SerializeAsString(), expected.SerializeAsString());
    return info;
  }

  RunningServer server_;
  HttpClient client_;
};

TEST_F(SessionsOverHttp, AStepGivesTheBitsOfGrpc) {
  const SequenceTokens tokens(kPageShape, 21);
  const wire::OpenSessionRequest open = OpenFor(kPageShape, RotarySpec());
  const wire::OpenSessionResponse opened = Open(open);
  TestSession here(server_, opened.session_id(), opened.epoch(), 0);
  TestSession beside(server_, open);
  // The second one begins a block of its own, the third is in it.
  for (const int64_t begin : {0, 64, 65}) {
    const int64_t count = begin == 0 ? 64 : 1;
    wire::StepRequest request = here.Next();
    tokens.AddTo(request, begin, count);
    wire::StepResponse response;
    ReadReply(Post("/v1/step", request), response);
    ++here.step;
    here.position = response.length();
    EXPECT_EQ(response.length(), begin + count);
    EXPECT_EQ(Floats(response.output(0)), beside.Step(tokens, begin, count));
  }
  EXPECT_THAT(Described(here).lengths(), ElementsAre(66));
}

TEST_F(SessionsOverHttp, ForkRollbackAndCloseAreThoseOfGrpc) {
  const SequenceTokens tokens(kPageShape, 22);
  const wire::OpenSessionResponse opened =
      Open(OpenFor(kPageShape, CausalSpec()));
  TestSession session(server_, opened.session_id(), opened.epoch(), 0);
  session.Step(tokens, 0, 66);
  wire::ForkRequest fork_request;
  fork_request.set_session_id(session.id());
  fork_request.set_epoch(session.epoch);
  fork_request.set_position(64);
  wire::ForkResponse forked;
  ReadReply(Post("/v1/fork", fork_request), forked);
  TestSession fork(server_, forked.session_id(), forked.epoch(), 64);
  EXPECT_THAT(Described(fork).lengths(), ElementsAre(64));
  EXPECT_EQ(forked.session().own_bytes(), 0);

  wire::RollbackRequest back;
  back.set_session_id(session.id());
  back.set_epoch(session.epoch);
  back.set_position(64);
  wire::RollbackResponse rolled;
  ReadReply(Post("/v1/rollback", back), rolled);
  session.epoch = rolled.epoch();
  session.step = rolled.step();
  session.position = 64;
  EXPECT_EQ(Described(session).epoch(), rolled.epoch());
  EXPECT_EQ(session.Step(tokens, 64, 1), fork.Step(tokens, 64, 1));

  wire::CloseSessionResponse closed;
  const HttpCall close = {.method = "DELETE",
                          .target = PathOfSession(session.id())};
  ReadReply(client_.Call(close), closed);
  EXPECT_TRUE(closed.closed());
  closed.Clear();
  ReadReply(client_.Call(close), closed);
  EXPECT_FALSE(closed.closed());
  // The fork has what it had.
  EXPECT_THAT(Described(fork).lengths(), ElementsAre(65));
}

TEST_F(SessionsOverHttp, AListGoesPageByPage) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(Open(OpenFor(kPageShape, CausalSpec())).session_id());
  }
  std::vector<std::string> found;
  wire::ListSessionsResponse page;
  do {
    ReadReply(client_.Call(
                  {.target = absl::StrCat(kSessions, "?page_size=1&page_token=",
                                          page.next_page_token())}),
              page);
    for (const auto& session : page.sessions()) {
      found.push_back(session.session_id());
    }
  } while (!page.next_page_token().empty() && found.size() < 10);
  EXPECT_THAT(found, UnorderedElementsAreArray(ids));
}

TEST_F(SessionsOverHttp, ErrorsAndTheirReasonsAreThoseOfGrpc) {
  const SequenceTokens tokens(kPageShape, 23);
  TestSession session(server_, OpenFor(kPageShape, CausalSpec()));
  session.Step(tokens, 0, 5);
  wire::StepRequest gap = session.Next();
  tokens.AddTo(gap, 5, 1);
  gap.set_step(7);
  wire::StepRequest replaced = session.Next();
  tokens.AddTo(replaced, 6, 5);
  replaced.set_step(0);
  replaced.set_position(0);
  wire::StepRequest epoch = session.Next();
  tokens.AddTo(epoch, 5, 1);
  epoch.set_epoch(session.epoch + 1);
  wire::StepRequest absent = session.Next();
  tokens.AddTo(absent, 5, 1);
  absent.set_session_id("none");
  wire::StepRequest narrow = session.Next();
  tokens.AddTo(narrow, 5, 1);
  narrow.clear_v();
  std::vector<std::string> reasons;
  for (const wire::StepRequest& request :
       {gap, replaced, epoch, absent, narrow}) {
    wire::StepResponse response;
    const grpc::Status expected = session.Send(request, &response);
    const HttpReply reply = Post("/v1/step", request);
    ExpectSameError(reply, expected);
    reasons.push_back(absl::StrCat(reply.status, " ", ReasonIn(expected)));
  }
  EXPECT_THAT(reasons,
              ElementsAre("400 SESSION_STEP_GAP", "400 SESSION_STEP_REPLACED",
                          "400 SESSION_WRONG_EPOCH", "404 SESSION_NOT_HERE",
                          "400 INVALID_ARGUMENT"));
  wire::OpenSessionRequest open = OpenFor(kPageShape, CausalSpec());
  open.set_kv_heads(3);
  EXPECT_EQ(FieldOfReply(Post(kSessions, open)), "kv_heads");
}

ServerOptions LittleKvMemory() {
  ServerOptions options = PageOptions();
  // A block of 64 tokens has 8 KiB.
  options.max_session_bytes = 20 << 10;
  return options;
}

class LittleKvOverHttp : public SessionsOverHttp {
 protected:
  LittleKvOverHttp() : SessionsOverHttp(LittleKvMemory()) {}
};

TEST_F(LittleKvOverHttp, MemoryThatIsShortIsTheErrorOfGrpc) {
  const SequenceTokens tokens(kPageShape, 24);
  TestSession first(server_, OpenFor(kPageShape, CausalSpec()));
  first.Step(tokens, 0, 65);
  TestSession second(server_, OpenFor(kPageShape, CausalSpec()));
  wire::StepRequest request = second.Next();
  tokens.AddTo(request, 0, 1);
  wire::StepResponse response;
  const grpc::Status expected = second.Send(request, &response);
  EXPECT_EQ(ReasonIn(expected), "KV_MEMORY");
  const HttpReply reply = Post("/v1/step", request);
  EXPECT_EQ(reply.status, 429);
  // The other one may be closed: it is worth a retry.
  EXPECT_NE(reply.Header("retry-after"), "");
  ExpectSameError(reply, expected);
}

}  // namespace
}  // namespace attn
