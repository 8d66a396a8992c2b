// What a failure is called on the command line.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

// One line of UTF-8 for whatever `text` holds: line breaks and other control
// characters of ASCII become blanks, those beyond it and what is no UTF-8
// U+FFFD, so that a server or a file cannot draw on the terminal.
std::string OneLine(absl::string_view text);

// The message with the flags' names for those of the library's options and of
// the request's fields that flags fill: "tls_ca" is "--tls-ca". Values, as
// files and what is quoted, keep their names.
std::string NameFlags(const absl::Status& status);

// What a user of the command line can do about what a server said, beginning
// with "; ", or nothing.
std::string AdviceFor(const absl::Status& status);

}  // namespace attn
