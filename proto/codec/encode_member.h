// Writing a stage's member into its oneof.
#pragma once

#include <optional>
#include <variant>

#include "proto/codec/schema.h"

namespace attn {

// A reference to an input; `ref` is asked for only if there is one, so that it
// stays unset otherwise.
template <typename MutableRef>
void EncodeRef(const std::optional<uint32_t>& input, MutableRef ref) {
  if (input.has_value()) ref()->set_input(*input);
}

}  // namespace attn
