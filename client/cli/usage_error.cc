#include "client/cli/usage_error.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/choices.h"
#include "client/cli/near_match.h"

namespace attn {
namespace {

// CLI11's own name of an error is sometimes the program's.
template <typename Kind>
bool Is(const CLI::ParseError& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

// The innermost command that was given.
const CLI::App& GivenCommand(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : GivenCommand(*given.back());
}

// The options that `command` takes: its own, and those of the commands around
// it.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::App* app = &command; app != nullptr;
       app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      options.push_back(option);
    }
  }
  return options;
}

std::string DidYouMean(const std::string& nearest, const CLI::App& command) {
  return nearest.empty()
             ? absl::StrCat("; ", PathOf(command), " --help lists them")
             : absl::StrCat("; did you mean ", nearest, "?");
}

// "layer put: " of a command; nothing of the program, whose name stands before
// every error.
std::string Prefix(const CLI::App& command) {
  const std::string path = PathOf(command);
  const size_t below = path.find(' ');
  if (below == std::string::npos) return "";
  return absl::StrCat(path.substr(below + 1), ": ");
}

// What stands on the command line and belongs nowhere.
std::string DescribeExtra(const std::string& extra, const CLI::App& command) {
  if (absl::StartsWith(extra, "-")) {
    const std::string name = extra.substr(0, extra.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* option : OptionsOf(command)) {
      if (option->nonpositional()) names.push_back(NameOf(*option));
    }
    return absl::StrCat(Prefix(command), "unknown option ", name,
                        DidYouMean(NearMatch(name, names), command));
  }
  const std::vector<std::string> names = CommandNames(command);
  if (names.empty()) {
    return absl::StrCat(Prefix(command), "unexpected argument \"", extra,
                        "\"; ", PathOf(command), " --help says what it takes");
  }
  return absl::StrCat(Prefix(command), "unknown command \"", extra, "\"",
                      DidYouMean(NearMatch(extra, names), command));
}

// The option that the message begins with, or null.
const CLI::Option* Named(absl::string_view message, const CLI::App& command) {
  for (const CLI::Option* option : OptionsOf(command)) {
    absl::string_view rest = message;
    if (absl::ConsumePrefix(&rest, option->get_name()) &&
        (absl::StartsWith(rest, ":") || absl::StartsWith(rest, " "))) {
      return option;
    }
  }
  return nullptr;
}

// What an option takes, in words.
std::string Expectation(const CLI::Option& option) {
  const std::vector<std::string> choices = ChoicesOf(option);
  if (!choices.empty()) return JoinChoices(choices);
  const std::string type = TypeOf(option);
  const bool is_list = option.get_delimiter() != '\0';
  if (type == "FLOAT" || type == kNumberType) {
    return is_list ? "numbers with commas between them" : "a number";
  }
  if (type == "INT" || type == "UINT") {
    return is_list ? "whole numbers with commas between them"
                   : "a whole number";
  }
  return type;
}

std::string DescribeConversion(absl::string_view message,
                               const CLI::App& command) {
  constexpr absl::string_view kBegin = "Could not convert: ";
  constexpr absl::string_view kBetween = " = ";
  absl::string_view rest = message;
  absl::ConsumePrefix(&rest, kBegin);
  const CLI::Option* option = Named(rest, command);
  const size_t value = rest.find(kBetween);
  if (option == nullptr || value == absl::string_view::npos) {
    return std::string(message);
  }
  return absl::StrCat(NameOf(*option), ": got \"",
                      rest.substr(value + kBetween.size()), "\", expected ",
                      Expectation(*option));
}

std::string DescribeMismatch(absl::string_view message,
                             const CLI::App& command) {
  const CLI::Option* option = Named(message, command);
  if (option == nullptr) return std::string(message);
  if (absl::StrContains(message, "At Most")) {
    return absl::StrCat(NameOf(*option), ": given more than once");
  }
  return absl::StrCat(NameOf(*option), ": got nothing, expected ",
                      Expectation(*option));
}

std::string DescribeMissing(absl::string_view message,
                            const CLI::App& command) {
  const CLI::Option* option = Named(message, command);
  const std::vector<std::string> names = CommandNames(command);
  if (option == nullptr && !names.empty()) {
    return absl::StrCat(Prefix(command), "no command, expected ",
                        JoinChoices(names), "; ", PathOf(command),
                        " --help says what they do");
  }
  return absl::StrCat(Prefix(command), message, "; ", PathOf(command),
                      " --help says more");
}

}  // namespace

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string PathOf(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return absl::StrCat(PathOf(*app.get_parent()), " ", app.get_name());
}

std::string DescribeUsageError(const CLI::App& app,
                               const CLI::ParseError& error) {
  const CLI::App& command = GivenCommand(app);
  const std::string message = error.what();
  const bool missing = Is<CLI::RequiredError>(error);
  // A word that belongs nowhere is why something else is missing, too.
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  if (!extras.empty() && (missing || Is<CLI::ExtrasError>(error))) {
    return DescribeExtra(extras.front(), command);
  }
  if (missing) return DescribeMissing(message, command);
  if (Is<CLI::ConversionError>(error)) {
    return DescribeConversion(message, command);
  }
  if (Is<CLI::ArgumentMismatch>(error)) {
    return DescribeMismatch(message, command);
  }
  if (Is<CLI::ExcludesError>(error)) {
    return absl::StrReplaceAll(message,
                               {{" excludes ", " cannot stand with "}});
  }
  return message;
}

}  // namespace attn
