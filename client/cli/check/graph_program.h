// Small ONNX graphs as programs of the service.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace attn {

// What a graph does to one score or weight.
struct GraphProgram {
  // Empty: the number itself.
  std::string value;
  // The condition under which it is not -inf; empty: always.
  std::string mask;
};

// `graph` has "graph", "graph_inputs", "graph_outputs" and "initializers";
// `word` is what the program calls its input. Skip() for a node that has no
// translation.
absl::StatusOr<GraphProgram> TranslateGraph(const nlohmann::json& graph,
                                            const std::string& word);

}  // namespace attn
