#include "client/cli/command.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

void PrintError(const absl::Status& status) {
  std::fprintf(stderr, "attn: %s\n", std::string(status.message()).c_str());
}

}  // namespace

absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text) {
  absl::Duration timeout;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    timeout = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &timeout)) {
    timeout = absl::ZeroDuration();
  }
  // The negation also refuses a NaN.
  if (!(timeout > absl::ZeroDuration())) {
    return FieldError("--timeout", absl::StrCat("\"", text, "\""),
                      "a time > 0: 30s, 500ms, or seconds");
  }
  return timeout;
}

absl::Duration GlobalOptions::deadline() const {
  return ParseTimeout(timeout).value_or(absl::ZeroDuration());
}

ClientOptions GlobalOptions::client() const {
  return {.address = address, .deadline = deadline(), .security = security};
}

absl::StatusOr<AttentionClient> ConnectTo(const GlobalOptions& options) {
  return AttentionClient::Connect(options.client());
}

ExitCode ReportCallError(const absl::Status& status) {
  if (IsUnreachable(status)) {
    PrintError(status);
    return ExitCode::kUnreachable;
  }
  std::fprintf(stderr, "attn: %s: %s\n",
               absl::StatusCodeToString(status.code()).c_str(),
               std::string(status.message()).c_str());
  return ExitCode::kServerError;
}

ExitCode ReportUsageError(const absl::Status& status) {
  PrintError(status);
  return ExitCode::kUsage;
}

}  // namespace attn
