#include "server/http/http_error.h"

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

using ErrorJson = nlohmann::ordered_json;

constexpr int kServerError = 500;

ErrorJson Detail(const char* type) {
  return {{"@type", absl::StrCat("type.googleapis.com/google.rpc.", type)}};
}

// A duration as protobuf's JSON writes it: "0.250s".
std::string DurationText(absl::Duration delay) {
  const int64_t ms = absl::ToInt64Milliseconds(delay);
  constexpr int64_t kMsPerSecond = 1000;
  const std::string rest = absl::StrCat(kMsPerSecond + ms % kMsPerSecond);
  return absl::StrCat(ms / kMsPerSecond, ".", rest.substr(1), "s");
}

}  // namespace

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return kServerError;
  }
}

HttpResponse ErrorResponse(const grpc::Status& status) {
  const absl::Status told = FromGrpcStatus(status);
  ErrorJson error = {{"code", static_cast<int>(status.error_code())},
                     {"message", status.error_message()}};
  ErrorJson details = ErrorJson::array();
  HttpResponse response;
  response.status = HttpStatusOf(told.code());
  if (const auto field = FieldOf(told); field.has_value()) {
    ErrorJson detail = Detail("BadRequest");
    detail["fieldViolations"] = {
        {{"field", *field}, {"description", status.error_message()}}};
    details.push_back(std::move(detail));
  }
  if (const auto delay = RetryDelayOf(told); delay.has_value()) {
    ErrorJson detail = Detail("RetryInfo");
    detail["retryDelay"] = DurationText(*delay);
    details.push_back(std::move(detail));
    // In whole seconds, one at least.
    const int64_t seconds =
        absl::ToInt64Seconds(*delay + absl::Seconds(1) - absl::Nanoseconds(1));
    response.headers.emplace_back("Retry-After",
                                  absl::StrCat(seconds < 1 ? 1 : seconds));
  }
  const std::string reason = DecodeErrorDetails(status.error_details()).reason;
  if (!reason.empty()) {
    ErrorJson detail = Detail("ErrorInfo");
    detail["reason"] = reason;
    detail["domain"] = kErrorDomain;
    details.push_back(std::move(detail));
  }
  if (!details.empty()) error["details"] = std::move(details);
  if (told.code() == absl::StatusCode::kUnauthenticated) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = absl::StrCat(
      error.dump(-1, ' ', false, ErrorJson::error_handler_t::replace), "\n");
  return response;
}

HttpResponse ErrorResponse(const absl::Status& status) {
  return ErrorResponse(ToGrpcStatus(status));
}

std::optional<HttpResponse> RefuseUnlessJson(const HttpRequest& request) {
  constexpr int kUnsupportedMediaType = 415;
  const absl::string_view type = request.Header("content-type");
  if (absl::StartsWithIgnoreCase(type, "application/json")) {
    return std::nullopt;
  }
  HttpResponse response = ErrorResponse(absl::InvalidArgumentError(
      absl::StrCat("Content-Type: got ", type.empty() ? "nothing" : type,
                   ", expected application/json")));
  response.status = kUnsupportedMediaType;
  return response;
}

absl::Status NoRoomForAnswer() {
  return absl::ResourceExhaustedError(
      "the answers to other requests take all the memory that there is for "
      "them; try again");
}

HttpResponse WrongMethod(absl::string_view method, absl::string_view allowed) {
  constexpr int kMethodNotAllowed = 405;
  HttpResponse response = ErrorResponse(absl::InvalidArgumentError(
      absl::StrCat("method: got ", method, ", expected ", allowed)));
  response.status = kMethodNotAllowed;
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace attn
