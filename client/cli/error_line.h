// What a failure is called on the command line.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

// One line for whatever `text` holds: line breaks and other control characters
// become blanks, so that a server or a file cannot draw on the terminal.
std::string OneLine(absl::string_view text);

// The message with the flags' names for those of the library's options and of
// the request's fields that flags fill: "tls_ca" is "--tls-ca".
std::string NameFlags(const absl::Status& status);

// What a user of the command line can do about what a server said, beginning
// with "; ", or nothing.
std::string AdviceFor(const absl::Status& status);

}  // namespace attn
