// What the program says of itself: the commands and examples of its --help.
#pragma once

#include <string>
#include <vector>

namespace attn {

// A command without commands below it, e.g. {"layer", "put"}.
using CommandPath = std::vector<std::string>;

// "--help" of the command; {} is the program.
std::string HelpOf(const CommandPath& command);

// The commands that the help lists, in its order.
std::vector<std::string> ListedCommands(const std::string& help);

// The long options that the help lists, with "--".
std::vector<std::string> ListedOptions(const std::string& help);

// What stands below "Examples:": one line of the shell each.
std::vector<std::string> ListedExamples(const std::string& help);

// Every command that does something itself, found from the program's help.
std::vector<CommandPath> EveryCommand();

}  // namespace attn
