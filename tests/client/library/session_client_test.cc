#include "client/library/session_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/error_details.h"
#include "proto/codec/status_codec.h"
#include "tests/client/library/fake_session_server.h"
#include "tests/client/library/plain_cache.h"
#include "tests/client/library/plain_decode.h"

namespace attn {
namespace {

using ::testing::SizeIs;

HostTensor Ramp(const Shape& shape, int first) {
  HostTensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.Set(i, static_cast<double>(first + i % 50));
  }
  return tensor;
}

// Rows of one step of PlainSession(1), and what they see at the beginning.
struct FirstStep {
  explicit FirstStep(int64_t tokens)
      : q(Ramp({1, 2, tokens, 2}, 1)),
        k(Ramp({1, 1, tokens, 2}, 3)),
        v(Ramp({1, 1, tokens, 3}, 5)) {}

  StepMessage Message(const std::string& id, uint64_t step = 0,
                      int64_t position = 0) const {
    StepMessage message;
    message.session_id = id;
    message.epoch = 1;
    message.step = step;
    message.position = position;
    message.layers = {
        {.layer = 0, .q = q.view(), .k = k.view(), .v = v.view()}};
    return message;
  }
  HostTensor Sight() const {
    PlainCache cache;
    cache.k.Append(k, false);
    cache.v.Append(v, false);
    return PlainSight(q, false, cache);
  }

  HostTensor q;
  HostTensor k;
  HostTensor v;
};

void ExpectIs(const StepResult& result, const HostTensor& expected) {
  ASSERT_THAT(result.tensors, SizeIs(1));
  const HostTensor got = HostTensor::Copy(
      TensorView::Dense(result.tensors[0].data.data(), result.tensors[0].dtype,
                        result.tensors[0].shape));
  ASSERT_EQ(got.shape(), expected.shape());
  for (int64_t i = 0; i < got.element_count(); ++i) {
    ASSERT_EQ(got.At(i), expected.At(i)) << i;
  }
}

class SessionClientTest : public ::testing::Test {
 protected:
  SessionClientTest()
      : client_(*SessionClient::Connect(
            {.address = server_.address(),
             .retry = {.initial_backoff = absl::Milliseconds(1),
                       .max_backoff = absl::Milliseconds(10)}})) {}

  std::string Open() const {
    const auto opened = client_.Open(PlainSession(1));
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->session_id();
  }

  FakeSessionServer server_;
  SessionClient client_;
};

TEST(NewSession, TellsTheServerAllThatItSays) {
  const HostTensor slopes = Ramp({2}, 1);
  NewSession session;
  session.spec.masks = {CausalMask{Alignment::kBottomRight}};
  session.layers = 7;
  session.q_heads = 8;
  session.kv_heads = 2;
  session.q_dim = 64;
  session.k_dim = 32;
  session.v_dim = 16;
  session.kv_dtype = DType::kI8;
  session.max_tokens = int64_t{1} << 40;
  session.idle_timeout = absl::Milliseconds(1500);
  session.inputs = {slopes.view()};
  const v1::OpenSessionRequest request = EncodeOpenSession(session);
  EXPECT_TRUE(request.spec().masks(0).has_causal());
  EXPECT_EQ(request.layers(), 7);
  EXPECT_EQ(request.q_heads(), 8);
  EXPECT_EQ(request.kv_heads(), 2);
  EXPECT_EQ(request.q_dim(), 64);
  EXPECT_EQ(request.k_dim(), 32);
  EXPECT_EQ(request.v_dim(), 16);
  EXPECT_EQ(request.kv_dtype(), v1::DATA_TYPE_I8);
  EXPECT_EQ(request.max_tokens(), int64_t{1} << 40);
  EXPECT_EQ(request.idle_timeout_ms(), 1500);
  ASSERT_EQ(request.inputs_size(), 1);
  const HostTensor input = *HostTensor::Copy(request.inputs(0));
  EXPECT_EQ(input.shape(), slopes.shape());
  EXPECT_EQ(input.At(1), slopes.At(1));
}

TEST_F(SessionClientTest, ASessionIsStepped) {
  const FirstStep step(3);
  const std::string id = Open();
  const auto result = client_.Step(step.Message(id));
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectIs(*result, step.Sight());
}

TEST_F(SessionClientTest, LargeTensorsAreSentFromWhereTheyAreAndAgain) {
  // Each of q, k and v is beyond what is copied.
  const FirstStep step(3000);
  const std::string id = Open();
  server_.Refuse(2, absl::UnavailableError("draining"));
  const auto result = client_.Step(step.Message(id));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tensors[0].shape, (Shape{1, 2, 3000, 3}));
  // Open, and three attempts.
  EXPECT_EQ(server_.calls(), 4);
}

TEST_F(SessionClientTest, OtherCallsSayWhatTheServerSays) {
  const std::string id = Open();
  const FirstStep step(3);
  ASSERT_TRUE(client_.Step(step.Message(id)).ok());
  const auto fork = client_.Fork(id, 1, 2);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->session().lengths(0), 2);
  EXPECT_EQ(client_.Fork(id, 1, std::nullopt)->session().lengths(0), 3);
  const auto rolled_back = client_.Rollback(id, 1, 1);
  ASSERT_TRUE(rolled_back.ok()) << rolled_back.status();
  EXPECT_EQ(rolled_back->epoch(), 2U);
  EXPECT_EQ(rolled_back->step(), 1U);
  const auto info = client_.Get(id);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->lengths(0), 1);
  // The server gives two to a page.
  const auto all = client_.List();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, SizeIs(3));
  EXPECT_TRUE(*client_.Close(id));
  EXPECT_FALSE(*client_.Close(id));
  EXPECT_TRUE(absl::IsNotFound(client_.Get(id).status()));
}

TEST_F(SessionClientTest, ErrorsKeepTheReasonThatTheServerNames) {
  const FirstStep step(1);
  EXPECT_EQ(ErrorReasonOf(client_.Step(step.Message("none")).status()),
            "SESSION_NOT_HERE");
  const std::string id = Open();
  EXPECT_EQ(ErrorReasonOf(client_.Step(step.Message(id, 1)).status()),
            "SESSION_STEP_GAP");
  EXPECT_EQ(ErrorReasonOf(client_.Rollback(id, 9, 0).status()),
            "SESSION_WRONG_EPOCH");
  server_.Refuse(1, FieldError("spec", "this", "that"));
  const absl::Status field = client_.Open(PlainSession(1)).status();
  EXPECT_EQ(FieldOf(field), "spec");
  EXPECT_EQ(ErrorReasonOf(field), "INVALID_ARGUMENT");
  EXPECT_EQ(ErrorReasonOf(absl::InternalError("of nobody's")), "");
}

TEST_F(SessionClientTest, AStreamAnswersInOrderAndGoesOnAfterAFailure) {
  const std::string id = Open();
  const FirstStep step(2);
  const auto stream = client_.OpenStepStream();
  ASSERT_TRUE(stream->Send(step.Message(id)).ok());
  ASSERT_TRUE(stream->Send(step.Message(id, 5, 2)).ok());
  ASSERT_TRUE(stream->Send(step.Message(id, 1, 2)).ok());
  const auto first = stream->Receive();
  ASSERT_TRUE(first.ok()) << first.status();
  ExpectIs(*first, step.Sight());
  const auto gap = stream->Receive();
  EXPECT_TRUE(absl::IsFailedPrecondition(gap.status()));
  EXPECT_EQ(ErrorReasonOf(gap.status()), "SESSION_STEP_GAP");
  EXPECT_FALSE(stream->broken());
  const auto last = stream->Receive();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->header.step(), 1U);
  EXPECT_TRUE(absl::IsFailedPrecondition(stream->Receive().status()));
  EXPECT_FALSE(stream->broken());
}

TEST_F(SessionClientTest, AStreamThatBreaksSaysWhyFromThenOn) {
  const std::string id = Open();
  const FirstStep step(1);
  const auto stream = client_.OpenStepStream();
  ASSERT_TRUE(stream->Send(step.Message(id)).ok());
  ASSERT_TRUE(stream->Receive().ok());
  server_.Refuse(1, WithReason(absl::UnavailableError("draining"), "DRAIN"));
  ASSERT_TRUE(stream->Send(step.Message(id, 1, 1)).ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = stream->Receive().status();
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(ErrorReasonOf(status), "DRAIN");
    EXPECT_TRUE(stream->broken());
  }
  EXPECT_TRUE(absl::IsUnavailable(stream->Send(step.Message(id, 1, 1))));
}

TEST_F(SessionClientTest, AStreamMayEndWithStepsOnTheirWay) {
  const std::string id = Open();
  const FirstStep step(1000);
  const auto stream = client_.OpenStepStream();
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        stream->Send(step.Message(id, i, static_cast<int64_t>(i) * 1000)).ok());
  }
  ASSERT_TRUE(stream->Receive().ok());
}

// A port that is open, and where nobody speaks.
class SilentPort {
 public:
  SilentPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, generic, size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, generic, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  const std::string& address() const { return address_; }

 private:
  int socket_;
  std::string address_;
};

TEST(SessionClient, AnAnswerThatDoesNotComeEndsTheStream) {
  const SilentPort port;
  const FirstStep step(1);
  const auto client = SessionClient::Connect({.address = port.address()});
  ASSERT_TRUE(client.ok());
  const auto stream =
      client->OpenStepStream({.deadline = absl::Milliseconds(20)});
  ASSERT_TRUE(stream->Send(step.Message("any")).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream->Receive().status()));
  EXPECT_TRUE(stream->broken());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream->Send(step.Message("any"))));
}

TEST(SessionClient, OptionsThatCannotBeMeantAreNamed) {
  EXPECT_EQ(FieldOf(SessionClient::Connect({.address = "nowhere"}).status()),
            "address");
  EXPECT_EQ(
      FieldOf(SessionClient::Connect({.deadline = absl::Seconds(-1)}).status()),
      "deadline");
}

TEST(SessionClient, NobodyThereIsUnreachable) {
  std::string address;
  {
    FakeSessionServer server;
    address = server.address();
  }
  const auto client = SessionClient::Connect(
      {.address = address, .retry = {.max_attempts = 1}});
  EXPECT_TRUE(IsUnreachable(client->Open(PlainSession(1)).status()));
}

}  // namespace
}  // namespace attn
