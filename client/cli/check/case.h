// Cases with known answers: <family>/<case>/case.json and .npy files.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/compare.h"
#include "client/io/tensor_file.h"
#include "nlohmann/json.hpp"

namespace attn {

struct Case {
  std::string name;
  std::string family;
  // Says how the rest is to be read: "attention", "merge", ...
  std::string op;
  nlohmann::json params;
  TensorMap inputs;
  TensorMap outputs;
  // For an engine that computes in double, and in single precision.
  Tolerance tolerance64;
  Tolerance tolerance32;

  bool HasInput(const std::string& input) const {
    return inputs.contains(input);
  }
  // Null if the case does not have it.
  const HostTensor* Input(const std::string& input) const {
    const auto found = inputs.find(input);
    return found == inputs.end() ? nullptr : &found->second;
  }
  // "family/name"
  std::string Title() const { return family + "/" + name; }
};

// Folders with a case.json at or below `root`, sorted. `families` empty: all.
// NOT_FOUND if there is none.
absl::StatusOr<std::vector<std::string>> FindCases(
    const std::string& root, const std::vector<std::string>& families);

// Errors name the file.
absl::StatusOr<Case> LoadCase(const std::string& folder);

}  // namespace attn
