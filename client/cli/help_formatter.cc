#include "client/cli/help_formatter.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/choices.h"
#include "client/cli/text_table.h"

namespace attn {
namespace {

constexpr size_t kHelpWidth = 80;
// Where descriptions begin.
constexpr size_t kHelpColumn = 30;
// Longer lists of values go to the description.
constexpr size_t kShortList = 40;

// One entry: `head` in two columns' indent, the description from kHelpColumn.
std::string HelpEntry(const std::string& head, const std::string& description) {
  std::string text = absl::StrCat("  ", head);
  if (description.empty()) return text + "\n";
  if (DisplayWidth(text) + 2 > kHelpColumn) {
    absl::StrAppend(&text, "\n", std::string(kHelpColumn, ' '));
  } else {
    text = PadRight(text, kHelpColumn);
  }
  return absl::StrCat(text, WrapText(description, kHelpColumn, kHelpWidth),
                      "\n");
}

bool TakesMany(const CLI::Option& option) {
  return option.get_expected_max() == CLI::detail::expected_max_vector_size;
}

// What a value is called: its type, or the values that there are.
std::string ValueName(const CLI::Option& option) {
  const std::string type = TypeOf(option);
  const std::vector<std::string> choices = ChoicesOf(option);
  if (choices.empty() || type.find('|') != std::string::npos) return type;
  const std::string list = absl::StrJoin(choices, "|");
  return list.size() <= kShortList ? list : type;
}

}  // namespace

std::string WrapText(const std::string& text, size_t column, size_t width) {
  std::string wrapped;
  size_t used = column;
  for (const absl::string_view word :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t length = DisplayWidth(std::string(word));
    if (wrapped.empty()) {
      wrapped = std::string(word);
      used += length;
    } else if (used + 1 + length > width) {
      absl::StrAppend(&wrapped, "\n", std::string(column, ' '), word);
      used = column + length;
    } else {
      absl::StrAppend(&wrapped, " ", word);
      used += 1 + length;
    }
  }
  return wrapped;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  // CLI11 parts groups by two empty lines.
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  while (absl::StrReplaceAll({{"\n\n\n", "\n\n"}}, &text) > 0) {
  }
  if (!absl::EndsWith(text, "\n")) text += "\n";
  return text;
}

std::string HelpFormatter::make_group(
    std::string group, bool is_positional,
    std::vector<const CLI::Option*> options) const {
  std::string text = absl::StrCat("\n", group, ":\n");
  for (const CLI::Option* option : options) {
    text += make_option(option, is_positional);
  }
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option,
                                       bool is_positional) const {
  std::string head = make_option_name(option, is_positional);
  // The name of a positional says what it is; its type would say so again.
  if (is_positional) head = absl::AsciiStrToUpper(head);
  if (!is_positional || !ChoicesOf(*option).empty()) {
    head += make_option_opts(option);
  } else if (TakesMany(*option)) {
    head += "...";
  }
  return HelpEntry(head, make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (IsFlag(*option)) return "";
  std::string text = ValueName(*option);
  if (MayStandAlone(*option)) return absl::StrCat("[=", text, "]");
  if (option->get_delimiter() != '\0') {
    absl::StrAppend(&text, option->get_delimiter() == ',' ? ",..." : " ...");
  } else if (TakesMany(*option)) {
    text += "...";
  }
  return absl::StrCat(" ", text);
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  const std::vector<std::string> choices = ChoicesOf(*option);
  if (!choices.empty() && ValueName(*option) == TypeOf(*option) &&
      TypeOf(*option).find('|') == std::string::npos) {
    absl::StrAppend(&text, ". One of: ", absl::StrJoin(choices, ", "));
  }
  std::vector<std::string> notes;
  if (!option->get_default_str().empty() && !IsFlag(*option)) {
    notes.push_back(absl::StrCat("default ", option->get_default_str()));
  }
  if (!option->get_envname().empty()) notes.push_back(option->get_envname());
  for (const CLI::Option* needed : option->get_needs()) {
    notes.push_back(absl::StrCat("with ", NameOf(*needed)));
  }
  for (const CLI::Option* excluded : option->get_excludes()) {
    notes.push_back(absl::StrCat("not with ", NameOf(*excluded)));
  }
  if (notes.empty()) return text;
  return absl::StrCat(text, " [", absl::StrJoin(notes, "; "), "]");
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return HelpEntry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::string text = CLI::Formatter::make_footer(app);
  const CLI::App* program = app;
  while (program->get_parent() != nullptr) program = program->get_parent();
  if (program == app) return text;
  std::vector<std::string> names;
  for (const CLI::Option* option : program->get_options()) {
    if (NameOf(*option) != "--help" && NameOf(*option) != "--version") {
      names.push_back(NameOf(*option));
    }
  }
  return absl::StrCat(
      "\n",
      WrapText(absl::StrCat("Options of every command (", program->get_name(),
                            " --help): ", absl::StrJoin(names, " ")),
               0, kHelpWidth),
      "\n", text);
}

}  // namespace attn
