// Names that a request brings, as errors may repeat them: in one line, and no
// longer than a name is.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attn {

// A part of a field's path: escaped where it would not print, and cut after
// some 64 bytes.
std::string FieldPart(absl::string_view name);

// The same between quotation marks.
std::string Quoted(absl::string_view name);

}  // namespace attn
