#include "client/cli/call_info_flags.h"

#include "CLI/CLI.hpp"
#include "client/cli/choices.h"

namespace attn {
namespace {

constexpr char kCallInfoGroup[] = "Call";

}  // namespace

void AddCallInfoFlags(CLI::App& command, CallInfoFlags& flags) {
  command
      .add_option("--request-id", flags.request_id,
                  "Echoed in the server's log")
      ->group(kCallInfoGroup);
  command
      .add_option("--priority", flags.priority,
                  "Among the calls that wait on the server")
      ->transform(OneOf({"high", "normal", "low"}))
      ->group(kCallInfoGroup)
      ->capture_default_str();
}

void ApplyCallInfo(const CallInfoFlags& flags, CallMessage& message) {
  message.request_id = flags.request_id;
  if (flags.priority == "high") message.priority = v1::PRIORITY_HIGH;
  if (flags.priority == "low") message.priority = v1::PRIORITY_LOW;
}

}  // namespace attn
