// Protobuf messages as JSON documents.
#pragma once

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace attn {

// The schema's field names, unset fields with their defaults, 64-bit integers
// as numbers.
nlohmann::json ToJson(const google::protobuf::Message& message);

}  // namespace attn
