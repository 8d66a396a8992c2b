#include "client/cli/call_info_flags.h"

#include "CLI/CLI.hpp"

namespace attn {

void AddCallInfoFlags(CLI::App& command, CallInfoFlags& flags) {
  command.add_option("--request-id", flags.request_id,
                     "Echoed in the server's log");
  command
      .add_option("--priority", flags.priority,
                  "Among the calls that wait on the server: high, normal or "
                  "low")
      ->check(CLI::IsMember({"high", "normal", "low"}))
      ->capture_default_str();
}

void ApplyCallInfo(const CallInfoFlags& flags, CallMessage& message) {
  message.request_id = flags.request_id;
  if (flags.priority == "high") message.priority = v1::PRIORITY_HIGH;
  if (flags.priority == "low") message.priority = v1::PRIORITY_LOW;
}

}  // namespace attn
