// Reads members of a JSON object and remembers what was first wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace attn {

// An object or value within a document that outlives this. What cannot be read
// is left as it is, and status() names its place: INVALID_ARGUMENT.
// Thread-compatible.
class RecordReader {
 public:
  // `place` begins every error: "file.json", "file.json.steps[0]".
  RecordReader(const nlohmann::json& json, std::string place)
      : json_(&json), place_(std::move(place)) {}

  // Counts must be from 0 to 10^14, which in nanoseconds is more than a day, or
  // to 10^7: so that sums of many do not overflow. Numbers must be finite and
  // >= 0.
  void Get(const char* key, int64_t& count);
  void Get(const char* key, int& count);
  void Get(const char* key, double& number);
  void Get(const char* key, std::string& text);
  // A text to be printed as it is: control characters become blanks, so that a
  // file cannot draw on the terminal.
  void GetLine(const char* key, std::string& text);
  // A member that is an object; an empty one if it is none.
  RecordReader Object(const char* key);
  // The elements of a member that is a list; none if it is none.
  std::vector<RecordReader> List(const char* key);
  // This value itself as a list of counts; left alone if it is none.
  void Value(std::vector<int64_t>& counts) const;

  void Fail(absl::string_view key, absl::string_view expected);

  const std::string& place() const { return place_; }
  const absl::Status& status() const { return status_; }

 private:
  // Null if there is none.
  const nlohmann::json* Find(const char* key) const;

  const nlohmann::json* json_;
  std::string place_;
  absl::Status status_;
};

}  // namespace attn
