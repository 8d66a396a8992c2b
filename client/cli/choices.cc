#include "client/cli/choices.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/near_match.h"

namespace attn {
namespace {

// What CLI11 puts between the name of a type and what a validator says.
constexpr char kOfValidator[] = ":{";

// The part of "TEXT:{a,b}" in braces.
absl::string_view InBraces(absl::string_view type) {
  const size_t begin = type.find(kOfValidator);
  if (begin == absl::string_view::npos) return {};
  const absl::string_view rest = type.substr(begin + 2);
  return rest.substr(0, rest.find('}'));
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> values) {
  const std::string list = absl::StrCat("{", absl::StrJoin(values, ","), "}");
  return {[values = std::move(values)](std::string& text) -> std::string {
            for (const std::string& value : values) {
              if (!absl::EqualsIgnoreCase(text, value)) continue;
              text = value;
              return "";
            }
            const std::string nearest = NearMatch(text, values);
            return absl::StrCat(
                "got \"", text, "\", expected ", JoinChoices(values),
                nearest.empty()
                    ? ""
                    : absl::StrCat("; did you mean ", nearest, "?"));
          },
          list, "OneOf"};
}

std::vector<std::string> FloatNames() { return {"f32", "f16", "bf16", "f64"}; }

std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const absl::string_view listed = InBraces(type);
  if (!listed.empty()) return absl::StrSplit(listed, ',');
  if (!absl::StrContains(type, '|')) return {};
  std::vector<std::string> choices;
  for (absl::string_view choice : absl::StrSplit(type, '|')) {
    absl::ConsumePrefix(&choice, "[");
    // "entmax[:ALPHA]": what stands in brackets is the user's.
    choices.emplace_back(choice.substr(0, choice.find_first_of("[]")));
  }
  return choices;
}

std::string TypeOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(kOfValidator));
}

bool TakesFile(const CLI::Option& option) {
  const std::string type = TypeOf(option);
  return type == kFileType || type == kNamedFileType || type == kFolderType;
}

std::string NameOf(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames()[0];
  if (!option.get_snames().empty()) return "-" + option.get_snames()[0];
  return option.get_name(true, false);
}

bool IsFlag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

bool MayStandAlone(const CLI::Option& option) {
  return !IsFlag(option) && option.get_items_expected_min() == 0;
}

std::string JoinChoices(const std::vector<std::string>& values) {
  if (values.size() < 2) return absl::StrJoin(values, "");
  return absl::StrCat(absl::StrJoin(values.begin(), values.end() - 1, ", "),
                      " or ", values.back());
}

}  // namespace attn
