// References of a spec to tensors of layers on the server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "proto/codec/schema.h"

namespace attn {

// A tensor of a layer. `field` is where the spec names it first, e.g.
// "spec.score.additive.v.layer".
struct LayerReference {
  std::string layer;
  std::string tensor;
  std::string field;
  // Where it names it again.
  std::vector<std::string> more_fields = {};
};

// A tensor of a layer in place of q, k or v. `field` is where the request names
// it: "k_layer".
struct OperandReference {
  std::string operand;
  std::string layer;
  std::string tensor;
  std::string field;
};

// Turns each reference to a layer below `spec` into one to an input: the n-th
// of the result stands for input `first_input` + n. A tensor that is named
// twice is there once. `path` is what the names of fields begin with: "spec".
// INVALID_ARGUMENT names a reference without a layer's or a tensor's name.
absl::StatusOr<std::vector<LayerReference>> TakeLayerReferences(
    google::protobuf::Message& spec, uint32_t first_input,
    const std::string& path);

}  // namespace attn
