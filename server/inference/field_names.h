// What a call's fields are called in the request that it was made of.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attn {

// A call of the Open Inference Protocol is computed as an AttendRequest, whose
// errors name its fields. Thread-compatible.
class FieldNames {
 public:
  // What is called `field` there, or is a part of it, is called `name` here.
  void Add(std::string field, std::string name);
  // What is called inputs[i] there, i by the order of these calls.
  void AddInput(std::string name) { inputs_.push_back(std::move(name)); }

  // An error that names a field, in the terms of the request. Other statuses
  // as they are.
  absl::Status Rename(const absl::Status& status) const;

 private:
  struct Row {
    std::string field;
    std::string name;
  };

  std::string NameOf(const std::string& field) const;
  std::string RenameInputs(absl::string_view text) const;

  std::vector<Row> rows_;
  std::vector<std::string> inputs_;
};

}  // namespace attn
