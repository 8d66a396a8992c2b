#include "server/inference/field_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr absl::string_view kGot = ": got ";
constexpr absl::string_view kExpected = ", expected ";

// Whether `field` is `whole` or a part of it.
bool IsPartOf(absl::string_view field, absl::string_view whole) {
  if (!absl::ConsumePrefix(&field, whole)) return false;
  return field.empty() || field[0] == '.' || field[0] == '[';
}

}  // namespace

void FieldNames::Add(std::string field, std::string name) {
  rows_.push_back({std::move(field), std::move(name)});
}

absl::Status FieldNames::Rename(const absl::Status& status) const {
  const auto field = FieldOf(status);
  if (!field.has_value()) return status;
  // "<field>: got <what>, expected <what>".
  absl::string_view text = status.message();
  const bool fits =
      absl::ConsumePrefix(&text, *field) && absl::ConsumePrefix(&text, kGot);
  const size_t middle = text.find(kExpected);
  if (!fits || middle == absl::string_view::npos) return status;
  return FieldError(NameOf(*field), RenameInputs(text.substr(0, middle)),
                    RenameInputs(text.substr(middle + kExpected.size())));
}

std::string FieldNames::NameOf(const std::string& field) const {
  const Row* best = nullptr;
  for (const Row& row : rows_) {
    if (IsPartOf(field, row.field) &&
        (best == nullptr || row.field.size() > best->field.size())) {
      best = &row;
    }
  }
  if (best == nullptr) return RenameInputs(field);
  return absl::StrCat(best->name, field.substr(best->field.size()));
}

std::string FieldNames::RenameInputs(absl::string_view text) const {
  std::vector<std::pair<std::string, std::string>> names;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    names.emplace_back(absl::StrCat("inputs[", i, "]"), inputs_[i]);
  }
  return absl::StrReplaceAll(text, names);
}

}  // namespace attn
