// Text inside of HTML, XML and SVG.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attn {

// Safe between tags and in quoted attributes: & < > " ' as references, control
// characters as blanks.
std::string EscapeHtml(absl::string_view text);

}  // namespace attn
