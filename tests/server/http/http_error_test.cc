#include "server/http/http_error.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

std::string HeaderOf(const HttpResponse& response, const std::string& name) {
  for (const auto& [own, value] : response.headers) {
    if (own == name) return value;
  }
  return "";
}

// The detail of that kind; null if there is none.
nlohmann::json DetailOf(const HttpResponse& response, const std::string& kind) {
  const auto error = nlohmann::json::parse(response.body);
  for (const auto& detail : error.value("details", nlohmann::json::array())) {
    if (detail["@type"] == "type.googleapis.com/google.rpc." + kind) {
      return detail;
    }
  }
  return nullptr;
}

// google/rpc/code.proto tells the status of each code.
TEST(HttpErrorTest, EveryCodeHasTheStatusThatItsCommentTells) {
  const std::map<absl::StatusCode, int> expected = {
      {absl::StatusCode::kOk, 200},
      {absl::StatusCode::kCancelled, 499},
      {absl::StatusCode::kUnknown, 500},
      {absl::StatusCode::kInvalidArgument, 400},
      {absl::StatusCode::kDeadlineExceeded, 504},
      {absl::StatusCode::kNotFound, 404},
      {absl::StatusCode::kAlreadyExists, 409},
      {absl::StatusCode::kPermissionDenied, 403},
      {absl::StatusCode::kResourceExhausted, 429},
      {absl::StatusCode::kFailedPrecondition, 400},
      {absl::StatusCode::kAborted, 409},
      {absl::StatusCode::kOutOfRange, 400},
      {absl::StatusCode::kUnimplemented, 501},
      {absl::StatusCode::kInternal, 500},
      {absl::StatusCode::kUnavailable, 503},
      {absl::StatusCode::kDataLoss, 500},
      {absl::StatusCode::kUnauthenticated, 401}};
  // OK is 0, UNAUTHENTICATED 16.
  ASSERT_EQ(expected.size(), 17U);
  for (const auto& [code, status] : expected) {
    EXPECT_EQ(HttpStatusOf(code), status) << static_cast<int>(code);
    if (code == absl::StatusCode::kOk) continue;
    const HttpResponse response = ErrorResponse(absl::Status(code, "why"));
    EXPECT_EQ(response.status, status);
    const auto error = nlohmann::json::parse(response.body);
    EXPECT_EQ(error["code"], static_cast<int>(code));
    EXPECT_EQ(error["message"], "why");
    EXPECT_EQ(HeaderOf(response, "Content-Type"), "application/json");
  }
}

TEST(HttpErrorTest, TheFieldIsABadRequest) {
  const absl::Status status = FieldError("q.shape", "3 axes", "4");
  const HttpResponse response = ErrorResponse(status);
  EXPECT_EQ(DetailOf(response, "BadRequest")["fieldViolations"],
            nlohmann::json::array(
                {{{"field", "q.shape"},
                  {"description", std::string(status.message())}}}));
  EXPECT_EQ(DetailOf(response, "RetryInfo"), nullptr);
  EXPECT_EQ(HeaderOf(response, "Retry-After"), "");
}

TEST(HttpErrorTest, AnErrorWithoutAFieldHasNoBadRequest) {
  const HttpResponse response = ErrorResponse(absl::InternalError("broken"));
  EXPECT_EQ(DetailOf(response, "BadRequest"), nullptr);
  EXPECT_EQ(DetailOf(response, "ErrorInfo")["domain"], "attention.v1");
}

// ErrorInfo as gRPC's trailers have it.
TEST(HttpErrorTest, TheReasonIsThatOfTheTrailers) {
  const grpc::Status status = ToGrpcStatus(FieldError("q", "a", "b"));
  EXPECT_EQ(DetailOf(ErrorResponse(status), "ErrorInfo")["reason"],
            DecodeErrorDetails(status.error_details()).reason);
  EXPECT_EQ(DetailOf(ErrorResponse(status), "ErrorInfo")["reason"],
            "INVALID_ARGUMENT");
}

// Retry-After counts whole seconds (RFC 9110, section 10.2.3): never less than
// is meant. The detail is exact.
TEST(HttpErrorTest, ATimeToComeBackIsInADetailAndInRetryAfter) {
  struct Case {
    absl::Duration delay;
    const char* detail;
    const char* header;
  };
  for (const Case& c : {Case{absl::Milliseconds(250), "0.250s", "1"},
                        Case{absl::Seconds(1), "1.000s", "1"},
                        Case{absl::Milliseconds(1001), "1.001s", "2"},
                        Case{absl::Seconds(90), "90.000s", "90"},
                        Case{absl::ZeroDuration(), "0.000s", "1"}}) {
    const HttpResponse response = ErrorResponse(
        WithRetryDelay(absl::ResourceExhaustedError("full"), c.delay));
    EXPECT_EQ(DetailOf(response, "RetryInfo")["retryDelay"], c.detail);
    EXPECT_EQ(HeaderOf(response, "Retry-After"), c.header);
  }
}

TEST(HttpErrorTest, WhoIsNotKnownIsToldHowToShowIt) {
  EXPECT_EQ(HeaderOf(ErrorResponse(absl::UnauthenticatedError("no token")),
                     "WWW-Authenticate"),
            "Bearer");
  EXPECT_EQ(HeaderOf(ErrorResponse(absl::PermissionDeniedError("no")),
                     "WWW-Authenticate"),
            "");
}

TEST(HttpErrorTest, AMessageThatIsNoUtf8IsStillJson) {
  const HttpResponse response =
      ErrorResponse(absl::NotFoundError("no \"\xFF\" here"));
  EXPECT_EQ(nlohmann::json::parse(response.body)["message"],
            "no \"\xEF\xBF\xBD\" here");
}

TEST(HttpErrorTest, AWrongMethodNamesTheRightOnes) {
  const HttpResponse response = WrongMethod("PATCH", "GET, PUT");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(HeaderOf(response, "Allow"), "GET, PUT");
  EXPECT_THAT(response.body, HasSubstr("method: got PATCH, expected GET, PUT"));
}

TEST(HttpErrorTest, OnlyWhatIsSaidToBeJsonIsTakenForIt) {
  for (const char* type :
       {"application/json", "Application/JSON; charset=utf-8"}) {
    EXPECT_FALSE(
        RefuseUnlessJson({.headers = {{"content-type", type}}}).has_value());
  }
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded",
                           "multipart/form-data", ""}) {
    const auto refusal =
        RefuseUnlessJson({.headers = {{"content-type", type}}});
    ASSERT_TRUE(refusal.has_value()) << type;
    EXPECT_EQ(refusal->status, 415);
  }
  EXPECT_TRUE(RefuseUnlessJson({}).has_value());
}

}  // namespace
}  // namespace attn
