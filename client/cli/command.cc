#include "client/cli/command.h"

#include <unistd.h>

#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cli/colour.h"
#include "client/cli/error_line.h"
#include "client/library/call_status.h"
#include "client/load/time_text.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

void PrintError(const std::string& message) {
  const std::string program =
      Painted("attn:", TextColour::kError, WantsColourOn(STDERR_FILENO));
  std::fprintf(stderr, "%s %s\n", program.c_str(), OneLine(message).c_str());
}

}  // namespace

absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text,
                                            const std::string& flag) {
  const std::optional<absl::Duration> timeout = ParseTime(text);
  // The negation also refuses a NaN.
  if (!timeout || !(*timeout > absl::ZeroDuration())) {
    return FieldError(flag, absl::StrCat("\"", text, "\""),
                      "a time > 0: 30s, 500ms, or seconds");
  }
  return *timeout;
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
    PrintError(NameFlags(status));
    return ExitCode::kUnreachable;
  }
  PrintError(absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                          NameFlags(status), AdviceFor(status)));
  return ExitCode::kServerError;
}

ExitCode ReportUsageError(const absl::Status& status) {
  PrintError(NameFlags(status));
  return ExitCode::kUsage;
}

}  // namespace attn
