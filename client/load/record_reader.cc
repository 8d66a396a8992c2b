#include "client/load/record_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

bool IsCount(const nlohmann::json& json) {
  return json.is_number_integer() && json >= 0 && json <= INT64_MAX;
}

const nlohmann::json& NoMembers() {
  static const nlohmann::json kNone = nlohmann::json::object();
  return kNone;
}

}  // namespace

const nlohmann::json* RecordReader::Find(const char* key) const {
  if (!json_->is_object()) return nullptr;
  const auto found = json_->find(key);
  return found == json_->end() ? nullptr : &*found;
}

void RecordReader::Fail(absl::string_view key, absl::string_view expected) {
  if (!status_.ok()) return;
  const nlohmann::json* found = Find(std::string(key).c_str());
  status_ = FieldError(
      absl::StrCat(place_, ".", key),
      found == nullptr ? "nothing" : absl::StrCat("a ", found->type_name()),
      expected);
}

void RecordReader::Get(const char* key, int64_t& count) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !IsCount(*found)) return Fail(key, "an integer >= 0");
  count = found->get<int64_t>();
}

void RecordReader::Get(const char* key, double& number) {
  const nlohmann::json* found = Find(key);
  const double value =
      found != nullptr && found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0) || std::isinf(value)) return Fail(key, "a number >= 0");
  number = value;
}

void RecordReader::Get(const char* key, std::string& text) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_string()) return Fail(key, "a text");
  text = found->get<std::string>();
}

RecordReader RecordReader::Object(const char* key) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_object()) Fail(key, "an object");
  return {found == nullptr ? NoMembers() : *found,
          absl::StrCat(place_, ".", key)};
}

std::vector<RecordReader> RecordReader::List(const char* key) {
  std::vector<RecordReader> elements;
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_array()) {
    Fail(key, "a list");
    return elements;
  }
  for (const nlohmann::json& element : *found) {
    elements.emplace_back(
        element, absl::StrCat(place_, ".", key, "[", elements.size(), "]"));
  }
  return elements;
}

void RecordReader::Value(std::vector<int64_t>& counts) const {
  if (!json_->is_array()) return;
  std::vector<int64_t> read;
  for (const nlohmann::json& element : *json_) {
    if (!IsCount(element)) return;
    read.push_back(element.get<int64_t>());
  }
  counts = std::move(read);
}

}  // namespace attn
