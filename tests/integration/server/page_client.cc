#include "tests/integration/server/page_client.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/core/field_error.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

using nlohmann::json;

// The detail of that kind; an empty object if there is none.
json DetailOf(const json& error, const std::string& kind) {
  for (const json& detail : error.value("details", json::array())) {
    if (detail["@type"] == "type.googleapis.com/google.rpc." + kind) {
      return detail;
    }
  }
  return json::object();
}

std::string FieldOfError(const json& error) {
  const json detail = DetailOf(error, "BadRequest");
  if (!detail.contains("fieldViolations")) return "";
  return detail["fieldViolations"][0]["field"];
}

}  // namespace

ServerOptions PageOptions(ServerOptions options) {
  options.http_address = "127.0.0.1:0";
  return options;
}

int PagePort(const Server& server) {
  const std::string address = server.page_address();
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? 0 : std::stoi(address.substr(colon + 1));
}

std::string JsonOf(const google::protobuf::Message& message) {
  std::string text;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &text).ok());
  return text;
}

HttpCall JsonCall(const std::string& target, const std::string& json,
                  const std::string& method) {
  return {.method = method,
          .target = target,
          .body = json,
          .headers = {"Content-Type: application/json"}};
}

void ReadReply(const HttpReply& reply, google::protobuf::Message& message) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.Header("content-type"), "application/json");
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(reply.body, &message).ok())
      << reply.body.substr(0, 1000);
}

void ExpectSameError(const HttpReply& reply, const grpc::Status& expected) {
  EXPECT_NE(expected.error_code(), grpc::StatusCode::OK);
  EXPECT_GE(reply.status, 400);
  const json error = json::parse(reply.body, nullptr, false);
  ASSERT_TRUE(error.is_object()) << reply.body;
  EXPECT_EQ(error["code"], static_cast<int>(expected.error_code()));
  EXPECT_EQ(error["message"], expected.error_message());
  const absl::Status told = FromGrpcStatus(expected);
  EXPECT_EQ(FieldOfError(error), FieldOf(told).value_or(""));
  EXPECT_EQ(DetailOf(error, "RetryInfo").contains("retryDelay"),
            RetryDelayOf(told).has_value());
  EXPECT_EQ(reply.headers.count("retry-after") > 0,
            RetryDelayOf(told).has_value());
  EXPECT_EQ(DetailOf(error, "ErrorInfo").value("reason", ""),
            DecodeErrorDetails(expected.error_details()).reason);
}

std::string FieldOfReply(const HttpReply& reply) {
  return FieldOfError(json::parse(reply.body, nullptr, false));
}

}  // namespace attn
