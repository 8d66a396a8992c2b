// What the commands that compute say of the call itself.
#pragma once

#include <string>

#include "proto/codec/call_codec.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line.
struct CallInfoFlags {
  std::string request_id;
  // "high", "normal" or "low"; the parser takes no other.
  std::string priority = "normal";
};

// --request-id and --priority.
void AddCallInfoFlags(CLI::App& command, CallInfoFlags& flags);

// Puts them into the message.
void ApplyCallInfo(const CallInfoFlags& flags, CallMessage& message);

}  // namespace attn
