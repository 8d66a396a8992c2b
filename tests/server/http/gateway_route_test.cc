#include "server/http/gateway_route.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/v1/attention.pb.h"
#include "attention/v1/layer.pb.h"
#include "attention/v1/session.pb.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

namespace pb = google::protobuf;
namespace schema = ::attention::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every RPC of the files in which the services are, but for streams: JSON of
// HTTP/1.1 has one message each way.
std::vector<const pb::MethodDescriptor*> UnaryRpcs() {
  std::vector<const pb::MethodDescriptor*> rpcs;
  for (const pb::FileDescriptor* file :
       {schema::AttendRequest::descriptor()->file(),
        schema::PutLayerRequest::descriptor()->file(),
        schema::StepRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const pb::MethodDescriptor* rpc = file->service(s)->method(m);
        if (!rpc->client_streaming() && !rpc->server_streaming()) {
          rpcs.push_back(rpc);
        }
      }
    }
  }
  return rpcs;
}

std::string PathOf(const pb::MethodDescriptor& rpc) {
  return absl::StrCat("/", rpc.service()->full_name(), "/", rpc.name());
}

TEST(GatewayRoutesTest, EachUnaryRpcOfTheSchemaHasOneRoute) {
  std::map<std::string, int> routes;
  for (const GatewayRoute& route : GatewayRoutes()) ++routes[route.rpc];
  const auto rpcs = UnaryRpcs();
  // Those of three services at least.
  ASSERT_GT(rpcs.size(), 15U);
  for (const pb::MethodDescriptor* rpc : rpcs) {
    EXPECT_EQ(routes[PathOf(*rpc)], 1) << rpc->full_name();
  }
  EXPECT_EQ(routes.size(), rpcs.size());
}

TEST(GatewayRoutesTest, TheMessagesOfARouteAreThoseOfItsRpc) {
  for (const pb::MethodDescriptor* rpc : UnaryRpcs()) {
    for (const GatewayRoute& route : GatewayRoutes()) {
      if (route.rpc != PathOf(*rpc)) continue;
      EXPECT_EQ(route.request, rpc->input_type()->full_name());
      EXPECT_EQ(route.response, rpc->output_type()->full_name());
    }
  }
}

// A layer, or a session where there is no body to hold its id.
TEST(GatewayRoutesTest, WhatIsBehindThePathIsTheNameThatTheMessageHas) {
  for (const pb::MethodDescriptor* rpc : UnaryRpcs()) {
    for (const GatewayRoute& route : GatewayRoutes()) {
      if (route.rpc != PathOf(*rpc)) continue;
      const pb::Descriptor& message = *rpc->input_type();
      std::string expected;
      if (message.FindFieldByName("name") != nullptr) expected = "name";
      if (message.FindFieldByName("session_id") != nullptr &&
          !route.has_body()) {
        expected = "session_id";
      }
      EXPECT_EQ(route.has_name(), !expected.empty()) << route.rpc;
      EXPECT_EQ(route.has_name() ? route.name_field : "", expected)
          << route.rpc;
    }
  }
}

TEST(GatewayRoutesTest, NoTwoRoutesAreOfTheSameMethodAndPath) {
  std::map<std::string, int> seen;
  for (const GatewayRoute& route : GatewayRoutes()) {
    EXPECT_EQ(++seen[absl::StrCat(route.method, " ", route.path)], 1);
  }
}

std::vector<std::string> RpcsOf(absl::string_view path) {
  std::vector<std::string> rpcs;
  for (const GatewayRoute* route : RoutesOf(path)) {
    rpcs.push_back(absl::StrCat(route->method, " ", route->rpc));
  }
  return rpcs;
}

TEST(GatewayRoutesTest, APathIsOneOfThemOrOneWithANameBehindIt) {
  EXPECT_THAT(RpcsOf("/v1/attend"),
              ElementsAre("POST /attention.v1.AttentionService/Attend"));
  EXPECT_THAT(RpcsOf("/v1/layers"),
              ElementsAre("GET /attention.v1.LayerService/ListLayers"));
  EXPECT_THAT(RpcsOf("/v1/layers/a/b"),
              ElementsAre("PUT /attention.v1.LayerService/PutLayer",
                          "GET /attention.v1.LayerService/GetLayer",
                          "DELETE /attention.v1.LayerService/DeleteLayer"));
  EXPECT_THAT(RpcsOf("/v1/sessions"),
              ElementsAre("POST /attention.v1.SessionService/OpenSession",
                          "GET /attention.v1.SessionService/ListSessions"));
  EXPECT_THAT(RpcsOf("/v1/sessions/0a"),
              ElementsAre("GET /attention.v1.SessionService/GetSession",
                          "DELETE /attention.v1.SessionService/CloseSession"));
  for (const char* path : {"/v1/layers/", "/v1/sessions/", "/v1/attend/",
                           "/v1/Attend", "/v1", "", "/v1/attendx"}) {
    EXPECT_THAT(RpcsOf(path), IsEmpty()) << path;
  }
}

// The route of an RPC by its short name.
const GatewayRoute& RouteOf(const std::string& rpc) {
  for (const GatewayRoute& route : GatewayRoutes()) {
    const std::string path = route.rpc;
    if (path.substr(path.rfind('/') + 1) == rpc) return route;
  }
  ADD_FAILURE() << "no route of " << rpc;
  return GatewayRoutes().front();
}

absl::StatusOr<std::string> Encode(const std::string& rpc,
                                   HttpRequest request) {
  return EncodeGatewayRequest(RouteOf(rpc), request);
}

// The message that a request stands for.
template <typename Message>
Message Encoded(const std::string& rpc, const HttpRequest& request) {
  const auto bytes = Encode(rpc, request);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  Message message;
  EXPECT_TRUE(message.ParseFromString(bytes.value_or("\xFF")));
  return message;
}

template <typename Message>
void ExpectAsProtobufReads(const std::string& rpc, const std::string& json) {
  Message expected;
  ASSERT_TRUE(pb::util::JsonStringToMessage(json, &expected).ok()) << json;
  EXPECT_TRUE(pb::util::MessageDifferencer::Equals(
      Encoded<Message>(rpc, {.body = json}), expected))
      << json;
}

TEST(GatewayRequestTest, JsonMeansWhatItMeansToProtobuf) {
  const std::string tensor =
      R"({"dtype":"DATA_TYPE_F32","shape":["1",1,"1",2],"data":"AACAPwAAAEA="})";
  for (const char* spec :
       {R"({"masks":[{"causal":{"alignment":"ALIGNMENT_BOTTOM_RIGHT"}}]})",
        R"({"transforms":[{"rotary":{"layout":1}}],"temperatures":[0.5]})",
        R"({"temperatures":["Infinity", 1e-3]})", "{}"}) {
    ExpectAsProtobufReads<schema::AttendRequest>(
        "Attend", absl::StrCat(R"({"spec":)", spec, R"(,"q":)", tensor,
                               R"(,"k":)", tensor, R"(,"v":)", tensor,
                               R"(,"requestId":"ä\n","q_lengths":["3",4]})"));
  }
  ExpectAsProtobufReads<schema::InspectRequest>(
      "Inspect",
      R"({"qLayer":{"layer":"x","tensor":"q"},"views":["INSPECT_VIEW_WEIGHTS"],
          "window":{"query":{"begin":"1"}},"priority":null})");
  ExpectAsProtobufReads<schema::PlanRequest>(
      "Plan", R"({"q":{"dtype":"DATA_TYPE_F32","shape":[1,2,3,4]}})");
  ExpectAsProtobufReads<schema::AttendRequest>("Attend", "{}");
}

TEST(GatewayRequestTest, NoBodyIsAnEmptyMessage) {
  EXPECT_EQ(
      Encoded<schema::GetServerInfoRequest>("GetServerInfo", {}).ByteSizeLong(),
      0U);
}

TEST(GatewayRequestTest, ABodyThatDoesNotFitNamesIt) {
  const std::string deep(100000, '[');
  for (const std::string& json : std::vector<std::string>{
           "{", "[]", "nonsense", R"({"q":1})", R"({"unknown":1})",
           R"({"q":{"data":"no base64!"}})", R"({"q":{"dtype":"NO_TYPE"}})",
           R"({"qLengths":[1.5]})", R"({"qLengths":["99999999999999999999"]})",
           "{\"requestId\":\"\xFF\"}",
           R"({"spec":{"masks":[{"causal":{},)"
           R"("window":{}}]}})",
           "{\"inputs\":" + deep, "{} {}"}) {
    const auto bytes = Encode("Attend", {.body = json});
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument)
        << json.substr(0, 100);
    EXPECT_EQ(FieldOf(bytes.status()), "body");
    EXPECT_THAT(std::string(bytes.status().message()),
                HasSubstr("attention.v1.AttendRequest"));
    EXPECT_EQ(bytes.status().message().find('\n'), absl::string_view::npos);
  }
}

TEST(GatewayRequestTest, TheQueryFillsFieldsByEitherName) {
  for (const char* name : {"page_size", "pageSize"}) {
    const auto request = Encoded<schema::ListLayersRequest>(
        "ListLayers", {.query = {{name, "7"}, {"page_token", "a b"}}});
    EXPECT_EQ(request.page_size(), 7);
    EXPECT_EQ(request.page_token(), "a b");
  }
}

// Without a body there is no other way to set them.
TEST(GatewayRequestTest, EveryFieldOfACallWithoutABodyFitsIntoTheQuery) {
  for (const pb::MethodDescriptor* rpc : UnaryRpcs()) {
    const GatewayRoute& route = RouteOf(rpc->name());
    if (route.has_body()) continue;
    for (int i = 0; i < rpc->input_type()->field_count(); ++i) {
      const pb::FieldDescriptor& field = *rpc->input_type()->field(i);
      const bool is_bool =
          field.cpp_type() == pb::FieldDescriptor::CPPTYPE_BOOL;
      HttpRequest request = {.path = absl::StrCat(route.path, "x"),
                             .query = {{field.name(), is_bool ? "true" : "1"}}};
      const auto bytes = EncodeGatewayRequest(route, request);
      EXPECT_TRUE(bytes.ok()) << field.full_name() << ": " << bytes.status();
    }
  }
}

TEST(GatewayRequestTest, TheNameIsTheOneOfThePath) {
  const auto put = Encoded<schema::PutLayerRequest>(
      "PutLayer", {.path = "/v1/layers/right/one",
                   .query = {{"name", "wrong"}},
                   .body = R"({"name":"wrong","tensors":[{"name":"w"}]})"});
  EXPECT_EQ(put.name(), "right/one");
  EXPECT_EQ(put.tensors_size(), 1);
  const auto get = Encoded<schema::GetLayerRequest>(
      "GetLayer", {.path = "/v1/layers/a b", .query = {{"info_only", "true"}}});
  EXPECT_EQ(get.name(), "a b");
  EXPECT_TRUE(get.info_only());
}

TEST(GatewayRequestTest, TheSessionIsTheOneOfThePath) {
  const auto get = Encoded<schema::GetSessionRequest>(
      "GetSession",
      {.path = "/v1/sessions/right", .query = {{"session_id", "wrong"}}});
  EXPECT_EQ(get.session_id(), "right");
  ExpectAsProtobufReads<schema::StepRequest>(
      "Step",
      R"({"sessionId":"x","epoch":"18446744073709551615","step":3,
          "position":"64","layers":[1,0],
          "k":[{"dtype":"DATA_TYPE_BF16","shape":["1","2","1","4"]}]})");
}

TEST(GatewayRequestTest, AWordThatDoesNotFitNamesItsField) {
  struct Case {
    const char* rpc;
    const char* field;
    const char* value;
  };
  for (const Case& c :
       {Case{"ListLayers", "page_size", "many"},
        Case{"ListLayers", "page_size", ""},
        Case{"ListLayers", "pageSize", "2147483648"},
        Case{"ListLayers", "page_tokens", "x"},
        Case{"ListLayers", "page_token", "\xFF"},
        Case{"ListLayers", "page_token", "\xED\xA0\x80"},
        Case{"GetLayer", "info_only", "1"},
        Case{"GetServerInfo", "verbose", "true"}, Case{"Attend", "q", "1"},
        Case{"Attend", "q_lengths", "1"}, Case{"Attend", "spec", ""}}) {
    const auto bytes =
        Encode(c.rpc, {.path = "/v1/layers/x", .query = {{c.field, c.value}}});
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(bytes.status()), c.field) << c.value;
  }
  EXPECT_EQ(FieldOf(Encode("GetLayer", {.path = "/v1/layers/\xFF"}).status()),
            "name");
  EXPECT_EQ(
      FieldOf(Encode("GetSession", {.path = "/v1/sessions/\xFF"}).status()),
      "session_id");
}

TEST(GatewayJsonTest, AResponseIsProtobufsJson) {
  schema::ListLayersResponse response;
  response.add_layers()->set_name("ä");
  response.set_next_page_token("next");
  const auto json =
      GatewayJson(RouteOf("ListLayers"), response.SerializeAsString());
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_THAT(*json, HasSubstr("\"nextPageToken\":\"next\""));
  schema::ListLayersResponse read;
  ASSERT_TRUE(pb::util::JsonStringToMessage(*json, &read).ok());
  EXPECT_TRUE(pb::util::MessageDifferencer::Equals(read, response));
}

}  // namespace
}  // namespace attn
