#include "client/load/record_reader.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr int64_t kHighestCount = 100'000'000'000'000;
constexpr int kHighestSmallCount = 10'000'000;

bool IsCount(const nlohmann::json& json, int64_t highest = kHighestCount) {
  return json.is_number_integer() && json >= 0 && json <= highest;
}

std::string CountUpTo(int64_t highest) {
  return absl::StrCat("an integer from 0 to ", highest);
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
  if (found == nullptr || !IsCount(*found)) {
    return Fail(key, CountUpTo(kHighestCount));
  }
  count = found->get<int64_t>();
}

void RecordReader::Get(const char* key, int& count) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !IsCount(*found, kHighestSmallCount)) {
    return Fail(key, CountUpTo(kHighestSmallCount));
  }
  count = found->get<int>();
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

void RecordReader::GetLine(const char* key, std::string& text) {
  Get(key, text);
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
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
