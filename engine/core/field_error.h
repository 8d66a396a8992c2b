// Errors that name the offending field of a request.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

// INVALID_ARGUMENT "`field`: got `got`, expected `expected`". `field` is the
// path in the request, e.g. "spec.masks[1].window.left"; it travels as a
// payload too, so that the server can fill google.rpc.BadRequest.
absl::Status FieldError(absl::string_view field, absl::string_view got,
                        absl::string_view expected);

// The field that a FieldError names.
std::optional<std::string> FieldOf(const absl::Status& status);

}  // namespace attn
