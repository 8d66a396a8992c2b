// The JSON gateway beside gRPC: the same bits, the same errors, the same
// counts.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/v1/layer.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/server/inspecting.h"
#include "tests/integration/server/page_client.h"
#include "tests/integration/server/pending_call.h"

namespace attn {
namespace {

using google::protobuf::util::MessageDifferencer;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kAttend[] = "/v1/attend";
constexpr char kInspect[] = "/v1/inspect";

class GatewayTest : public ::testing::Test {
 protected:
  explicit GatewayTest(const ServerOptions& options = PageOptions())
      : server_(options),
        client_(PagePort(server_.server())),
        layers_(wire::LayerService::NewStub(server_.Connect())) {}

  HttpReply Post(const std::string& target,
                 const google::protobuf::Message& request) {
    return client_.Call(JsonCall(target, JsonOf(request)));
  }
  // Fails unless HTTP's answer has the bits of gRPC's; but for times.
  template <typename Request, typename Response>
  void ExpectSameAnswer(const std::string& target, const Request& request,
                        Response expected) {
    Response response;
    ReadReply(Post(target, request), response);
    response.mutable_report()->clear_timings();
    expected.mutable_report()->clear_timings();
    EXPECT_EQ(response.SerializeAsString(), expected.SerializeAsString());
  }

  RunningServer server_;
  HttpClient client_;
  const std::unique_ptr<wire::LayerService::Stub> layers_;
};

// A call with inputs and several stages; its id is echoed.
wire::AttendRequest RichCall() {
  wire::AttendRequest request = RandomRequest({.batch = 2}, 3);
  wire::AttentionSpec& spec = *request.mutable_spec();
  spec.mutable_score()->mutable_dot()->set_scale(0.1);
  spec.add_biases()->mutable_dense()->mutable_tensor()->set_input(0);
  *request.add_inputs() = FloatTensor({5, 7}, RandomFloats(35, 9));
  spec.add_masks()->mutable_causal()->set_alignment(
      wire::ALIGNMENT_BOTTOM_RIGHT);
  request.set_request_id("mine");
  return request;
}

TEST_F(GatewayTest, AttendGivesTheBitsOfGrpc) {
  wire::AttendRequest request = RichCall();
  request.add_outputs(wire::OUTPUT_WEIGHTS);
  request.add_outputs(wire::OUTPUT_MASKED_LOGITS);
  request.add_outputs(wire::OUTPUT_ROW_STATISTICS);
  wire::AttendResponse expected;
  ASSERT_TRUE(server_.Attend(request, &expected).ok());
  ExpectSameAnswer(kAttend, request, expected);
}

TEST_F(GatewayTest, InspectGivesTheBitsOfGrpc) {
  wire::InspectRequest request = InspectOf(RichCall());
  request.set_request_id("mine");
  for (int view = wire::INSPECT_VIEW_LOGITS;
       view <= wire::INSPECT_VIEW_CONTRIBUTION; ++view) {
    request.add_views(static_cast<wire::InspectView>(view));
  }
  request.add_sweep_temperatures(0.5);
  wire::InspectResponse expected;
  ASSERT_TRUE(Inspect(server_, request, &expected).ok());
  ExpectSameAnswer(kInspect, request, expected);
}

TEST_F(GatewayTest, BackwardGivesTheBitsOfGrpc) {
  const wire::AttendRequest call = RichCall();
  wire::AttendBackwardRequest request;
  *request.mutable_spec() = call.spec();
  *request.mutable_q() = call.q();
  *request.mutable_k() = call.k();
  *request.mutable_v() = call.v();
  *request.mutable_inputs() = call.inputs();
  *request.mutable_d_output() =
      FloatTensor({2, 2, 5, 8}, RandomFloats(160, 10));
  request.set_request_id("mine");
  grpc::ClientContext context;
  wire::AttendBackwardResponse expected;
  ASSERT_TRUE(server_.stub().AttendBackward(&context, request, &expected).ok());
  ExpectSameAnswer("/v1/attend_backward", request, expected);
}

TEST_F(GatewayTest, APlanAndTheServerAreDescribedAsByGrpc) {
  wire::PlanRequest request;
  for (wire::TensorInfo* info :
       {request.mutable_q(), request.mutable_k(), request.mutable_v()}) {
    info->set_dtype(wire::DATA_TYPE_F32);
    for (const int64_t extent : {1, 2, 5, 8}) info->add_shape(extent);
  }
  wire::PlanResponse plan;
  wire::PlanResponse planned;
  grpc::ClientContext first;
  ASSERT_TRUE(server_.stub().Plan(&first, request, &planned).ok());
  ReadReply(Post("/v1/plan", request), plan);
  EXPECT_TRUE(MessageDifferencer::Equals(plan, planned));
  wire::GetServerInfoResponse info;
  wire::GetServerInfoResponse told;
  grpc::ClientContext second;
  ASSERT_TRUE(server_.stub().GetServerInfo(&second, {}, &told).ok());
  ReadReply(client_.Call({.target = "/v1/server_info"}), info);
  EXPECT_TRUE(MessageDifferencer::Equals(info, told));
}

TEST_F(GatewayTest, WhatDoesNotFitIsTheErrorOfGrpc) {
  wire::AttendRequest no_q = RandomRequest({}, 1);
  no_q.clear_q();
  wire::AttendRequest short_q = RandomRequest({}, 1);
  short_q.mutable_q()->mutable_data()->pop_back();
  wire::AttendRequest ambiguous = RandomRequest({}, 1);
  ambiguous.mutable_spec()->add_masks()->mutable_causal();
  wire::AttendRequest no_layer = RandomRequest({}, 1);
  wire::LayerTensor& layer = *no_layer.mutable_spec()
                                  ->add_biases()
                                  ->mutable_dense()
                                  ->mutable_tensor()
                                  ->mutable_layer();
  layer.set_layer("none");
  layer.set_tensor("bias");
  wire::AttendRequest no_kernel = RandomRequest({}, 1);
  no_kernel.set_kernel("none");
  for (const wire::AttendRequest& request :
       {no_q, short_q, ambiguous, no_layer, no_kernel}) {
    wire::AttendResponse response;
    const grpc::Status expected = server_.Attend(request, &response);
    const HttpReply reply = Post(kAttend, request);
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(FieldOfReply(reply), "");
    ExpectSameError(reply, expected);
  }
}

// Keeps a worker busy as SlowRequest() does, in a body of one MiB.
HttpCall LongCallOverHttp() {
  wire::AttendRequest request = RandomRequest({.q_heads = 8,
                                               .kv_heads = 8,
                                               .q_length = 8192,
                                               .kv_length = 8192,
                                               .dim = 1},
                                              1);
  request.set_kernel("reference");
  return JsonCall(kAttend, JsonOf(request));
}

// It runs for far longer than that.
TEST_F(GatewayTest, ACallOutOfTimeIsTheErrorOfGrpc) {
  HttpCall call = LongCallOverHttp();
  call.headers.push_back("Grpc-Timeout: 20m");
  const HttpReply reply = client_.Call(call);
  ASSERT_EQ(reply.status, 504);
  EXPECT_EQ(json::parse(reply.body)["code"],
            static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
}

TEST_F(GatewayTest, ATimeoutIsReadAsGrpcReadsIt) {
  HttpCall call = JsonCall(kAttend, JsonOf(RandomRequest({}, 1)));
  call.headers.push_back("Grpc-Timeout: 1h");
  EXPECT_EQ(FieldOfReply(client_.Call(call)), "Grpc-Timeout");
  call.headers.back() = "Grpc-Timeout: 99999999H";
  EXPECT_EQ(client_.Call(call).status, 200);
}

// gRPC's library ends the process over metadata that it cannot send.
TEST_F(GatewayTest, HeadersOfStrangeBytesEndNothing) {
  const std::string body = JsonOf(RandomRequest({}, 1));
  for (const char* header : {"Authorization: Bearer \xC3\xA9",
                             "Traceparent: \xFF", "Authorization: a\tb"}) {
    HttpCall call = JsonCall(kAttend, body);
    call.headers.push_back(header);
    EXPECT_EQ(client_.Call(call).status, 400) << header;
  }
  EXPECT_EQ(client_.Call(JsonCall(kAttend, body)).status, 200);
}

TEST_F(GatewayTest, PathsAndMethodsThatThereAreNot) {
  EXPECT_EQ(Post("/v1/attend_stream", RandomRequest({}, 1)).status, 404);
  EXPECT_EQ(Post("/v1/none", RandomRequest({}, 1)).status, 404);
  const HttpReply get = client_.Call({.target = kAttend});
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(get.Header("allow"), "POST");
  EXPECT_EQ(client_.Call({.method = "PATCH", .target = "/v1/layers/x"})
                .Header("allow"),
            "PUT, GET, DELETE");
}

// What a form of another page can send.
TEST_F(GatewayTest, ABodyThatIsNotSaidToBeJsonIsRefused) {
  const std::string body = JsonOf(RandomRequest({}, 1));
  for (const char* type :
       {"Content-Type: text/plain", "Content-Type: multipart/form-data",
        "Content-Type: application/x-www-form-urlencoded", "X-None: 1"}) {
    EXPECT_EQ(client_
                  .Call({.method = "POST",
                         .target = kAttend,
                         .body = body,
                         .headers = {type}})
                  .status,
              415)
        << type;
  }
  EXPECT_EQ(client_.Call({.method = "POST", .target = kAttend}).status, 415);
}

TEST_F(GatewayTest, ABodyThatIsNoRequestIsNamed) {
  for (const char* body :
       {"{", "[]", R"({"unknown":1})", "{\"kernel\":\"\xFF\"}"}) {
    const HttpReply reply = client_.Call(JsonCall(kAttend, body));
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(FieldOfReply(reply), "body");
  }
}

TEST_F(GatewayTest, LayersArePutReadListedAndDeleted) {
  wire::PutLayerRequest put;
  wire::NamedTensor& weight = *put.add_tensors();
  weight.set_name("w");
  *weight.mutable_tensor() = FloatTensor({2, 3}, RandomFloats(6, 1));
  for (const char* name : {"a", "b%2Dc", "%64.e"}) {
    const HttpReply reply = client_.Call(
        JsonCall(absl::StrCat("/v1/layers/", name), JsonOf(put), "PUT"));
    EXPECT_EQ(reply.status, 200) << reply.body;
  }
  // What gRPC finds, HTTP reads.
  wire::GetLayerRequest get;
  get.set_name("b-c");
  wire::GetLayerResponse expected;
  wire::GetLayerResponse read;
  grpc::ClientContext context;
  ASSERT_TRUE(layers_->GetLayer(&context, get, &expected).ok());
  ReadReply(client_.Call({.target = "/v1/layers/b-c"}), read);
  EXPECT_TRUE(MessageDifferencer::Equals(read, expected));
  EXPECT_EQ(read.tensors(0).tensor().data(), weight.tensor().data());
  ReadReply(client_.Call({.target = "/v1/layers/a?info_only=true"}), read);
  EXPECT_EQ(read.tensors_size(), 0);
  EXPECT_EQ(read.layer().name(), "a");
  // Page by page.
  wire::ListLayersResponse page;
  std::vector<std::string> names;
  do {
    ReadReply(client_.Call(
                  {.target = absl::StrCat("/v1/layers?page_size=1&page_token=",
                                          page.next_page_token())}),
              page);
    for (const auto& layer : page.layers()) names.push_back(layer.name());
  } while (!page.next_page_token().empty() && names.size() < 10);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("a", "b-c", "d.e"));
  EXPECT_EQ(
      client_.Call({.method = "DELETE", .target = "/v1/layers/d%2Ee"}).status,
      200);
  get.set_name("d.e");
  grpc::ClientContext again;
  const grpc::Status gone = layers_->GetLayer(&again, get, &expected);
  const HttpReply reply = client_.Call({.target = "/v1/layers/d.e"});
  EXPECT_EQ(reply.status, 404);
  ExpectSameError(reply, gone);
}

TEST_F(GatewayTest, AWordThatDoesNotFitIsNamed) {
  EXPECT_EQ(FieldOfReply(client_.Call({.target = "/v1/layers?page_size=x"})),
            "page_size");
  EXPECT_EQ(FieldOfReply(client_.Call({.target = "/v1/layers?pages=1"})),
            "pages");
  EXPECT_EQ(FieldOfReply(client_.Call({.target = "/v1/layers/%FF"})), "name");
  EXPECT_EQ(FieldOfReply(client_.Call({.target = "/v1/layers/a%20b"})), "name");
  EXPECT_EQ(client_.Call({.target = "/v1/layers?page_size=-1"}).status, 400);
}

TEST(GatewayLimits, AMessageThatIsTooLargeIsTheErrorOfGrpc) {
  ServerOptions options = PageOptions();
  options.max_message_bytes = 10000;
  RunningServer server(options);
  HttpClient client(PagePort(server.server()));
  const wire::AttendRequest request =
      RandomRequest({.kv_length = 200, .dim = 64}, 4);
  wire::AttendResponse response;
  const grpc::Status expected = server.Attend(request, &response);
  EXPECT_EQ(expected.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const HttpReply reply = client.Call(JsonCall(kAttend, JsonOf(request)));
  EXPECT_EQ(reply.status, 429);
  // The same message may be encoded in a few bytes more or less.
  const std::string said = expected.error_message();
  const std::string about = " is larger than --max-message-bytes=10000";
  EXPECT_THAT(said, HasSubstr(about));
  EXPECT_THAT(reply.body, HasSubstr(about));
  EXPECT_EQ(reply.headers.count("retry-after"), 0U);
  // What could be no message at all is not even read.
  HttpClient huge(PagePort(server.server()));
  ASSERT_TRUE(
      huge.Send("POST /v1/attend HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n"));
  EXPECT_EQ(huge.Read().status, 413);
}

TEST(GatewayLimits, ACallOverHttpIsCountedAsOne) {
  RunningServer server(PageOptions(TestOptionsWithMetrics()));
  HttpClient client(PagePort(server.server()));
  wire::AttendRequest request = RandomRequest({}, 1);
  EXPECT_EQ(client.Call(JsonCall(kAttend, JsonOf(request))).status, 200);
  EXPECT_EQ(server.MetricReaching("attn_requests_total{code=\"OK\",method="
                                  "\"Attend\",variant=\"dot_softmax\"}",
                                  1),
            1);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 0), 0);
  request.clear_q();
  EXPECT_EQ(client.Call(JsonCall(kAttend, JsonOf(request))).status, 400);
  EXPECT_TRUE(Becomes([&] {
    return server.Metrics().find("code=\"INVALID_ARGUMENT\"") !=
           std::string::npos;
  }));
}

TEST(GatewayLimits, AClosedConnectionCancelsItsCall) {
  ServerOptions options = PageOptions(TestOptionsWithMetrics());
  options.max_concurrent_requests = 1;
  options.max_queue_size = 1;
  RunningServer server(options);
  const std::string text = RequestText(LongCallOverHttp());
  HttpClient leaving(PagePort(server.server()));
  ASSERT_TRUE(leaving.Send(text));
  EXPECT_EQ(server.MetricReaching("attn_batch_requests_count", 1), 1);
  leaving.Close();
  EXPECT_EQ(server.MetricBecoming("attn_inflight_requests", 0), 0);
  EXPECT_EQ(server.MetricBecoming("attn_inflight_bytes", 0), 0);
  HttpClient next(PagePort(server.server()));
  EXPECT_EQ(next.Call(JsonCall(kAttend, JsonOf(RandomRequest({}, 1)))).status,
            200);
}

// It has not even begun when the server takes no more: it waits behind another.
TEST(GatewayLimits, ACallInsideIsAnsweredWhenTheServerStops) {
  ServerOptions options = PageOptions(TestOptionsWithMetrics());
  options.compute_threads = 1;
  options.max_batch_tokens = 100;
  RunningServer server(options);
  PendingCall slow(server.Connect(), kAttendPath, ToRequest(SlowRequest()));
  slow.Start();
  EXPECT_EQ(server.MetricReaching("attn_batch_requests_count", 1), 1);
  HttpClient inside(PagePort(server.server()));
  ASSERT_TRUE(inside.Send(RequestText(JsonCall(
      kAttend,
      JsonOf(RandomRequest(
          {.q_heads = 4, .kv_heads = 4, .q_length = 60, .kv_length = 60},
          2))))));
  EXPECT_EQ(server.MetricReaching("attn_queue_depth", 1), 1);
  std::thread stop([&server] { server.Stop(); });
  EXPECT_TRUE(Becomes([&server] {
    wire::AttendResponse response;
    return server.Attend(RandomRequest({}, 1), &response).error_code() ==
           grpc::StatusCode::UNAVAILABLE;
  }));
  slow.Cancel();
  wire::AttendResponse response;
  ReadReply(inside.Read(), response);
  EXPECT_EQ(response.output().shape_size(), 4);
  EXPECT_EQ(slow.Wait().error_code(), grpc::StatusCode::CANCELLED);
  stop.join();
  EXPECT_TRUE(inside.IsClosed());
}

TEST(GatewayLimits, AHurriedStopTellsThoseInside) {
  RunningServer server(PageOptions(TestOptionsWithMetrics()));
  const std::string text = RequestText(LongCallOverHttp());
  HttpClient inside(PagePort(server.server()));
  ASSERT_TRUE(inside.Send(text));
  EXPECT_EQ(server.MetricReaching("attn_batch_requests_count", 1), 1);
  server.server().Hurry();
  server.Stop();
  EXPECT_NE(inside.Read().status, 200);
}

}  // namespace
}  // namespace attn
