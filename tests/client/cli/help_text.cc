#include "tests/client/cli/help_text.h"

#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/client/testing/program.h"

namespace attn {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n');
}

// The first word of a line that is indented by two; "" for another line.
std::string EntryOf(const std::string& line) {
  if (line.size() < 3 || line.compare(0, 2, "  ") != 0 || line[2] == ' ') {
    return "";
  }
  return line.substr(2, line.find_first_of(" [", 2) - 2);
}

void Collect(const CommandPath& command, std::vector<CommandPath>& found) {
  const std::vector<std::string> below = ListedCommands(HelpOf(command));
  if (below.empty()) found.push_back(command);
  for (const std::string& name : below) {
    CommandPath path = command;
    path.push_back(name);
    Collect(path, found);
  }
}

}  // namespace

std::string HelpOf(const CommandPath& command) {
  std::vector<std::string> argv = {ATTN_PROGRAM};
  argv.insert(argv.end(), command.begin(), command.end());
  argv.emplace_back("--help");
  return RunProgram(argv).out;
}

std::vector<std::string> ListedCommands(const std::string& help) {
  std::vector<std::string> names;
  bool inside = false;
  for (const std::string& line : Lines(help)) {
    if (line == "Subcommands:") {
      inside = true;
    } else if (line.empty()) {
      inside = false;
    } else if (inside && !EntryOf(line).empty()) {
      names.push_back(EntryOf(line));
    }
  }
  return names;
}

std::vector<std::string> ListedOptions(const std::string& help) {
  std::vector<std::string> names;
  for (const std::string& line : Lines(help)) {
    for (const std::string& name :
         std::vector<std::string>(absl::StrSplit(EntryOf(line), ','))) {
      if (absl::StartsWith(name, "--")) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> ListedExamples(const std::string& help) {
  std::vector<std::string> examples;
  bool inside = false;
  bool goes_on = false;
  for (const std::string& line : Lines(help)) {
    if (line == "Examples:") {
      inside = true;
      continue;
    }
    if (!inside) continue;
    if (goes_on) {
      examples.back() += "\n" + line;
    } else if (EntryOf(line) == "attn") {
      examples.push_back(line.substr(2));
    } else {
      continue;
    }
    goes_on = absl::EndsWith(line, "\\");
  }
  return examples;
}

std::vector<CommandPath> EveryCommand() {
  std::vector<CommandPath> found;
  Collect({}, found);
  return found;
}

}  // namespace attn
