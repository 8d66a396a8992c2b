#include "proto/codec/status_codec.h"

#include <string>

#include "absl/strings/cord.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kRetryDelayPayload[] = "attn/retry_delay";

absl::string_view ToAbsl(const std::string& text) {
  return {text.data(), text.size()};
}

// Gives `status` the mark that FieldError gives.
void MarkField(const std::string& field, absl::Status& status) {
  FieldError(field, "", "")
      .ForEachPayload(
          [&status](absl::string_view url, const absl::Cord& payload) {
            status.SetPayload(url, payload);
          });
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryDelayPayload,
                    absl::Cord(absl::FormatDuration(delay)));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryDelayPayload);
  absl::Duration delay;
  if (!payload.has_value() ||
      !absl::ParseDuration(std::string(*payload), &delay)) {
    return std::nullopt;
  }
  return delay;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(status.message()),
          EncodeErrorDetails(status, RetryDelayOf(status))};
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      ToAbsl(status.error_message()));
  const ErrorDetails details =
      DecodeErrorDetails(ToAbsl(status.error_details()));
  if (details.field.has_value()) MarkField(*details.field, result);
  if (details.retry_delay.has_value()) {
    return WithRetryDelay(result, *details.retry_delay);
  }
  return result;
}

}  // namespace attn
