// Where a request goes: path, query and host.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/http/http_exchange.h"

namespace attn {

// "%20" is a space; nothing if a "%" is not followed by two hexadecimal digits.
std::optional<std::string> PercentDecode(absl::string_view text);

// Fills path and query; a target that cannot be decoded leaves the path empty.
void ReadTarget(absl::string_view target, HttpRequest& request);

// Whether a Host, "localhost:8000", is a number or a name that nobody can give
// to a machine of theirs: localhost, and what is below .localhost or .internal.
bool IsLocalHost(absl::string_view host);

}  // namespace attn
