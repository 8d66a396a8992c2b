// The kinds of values of options: what the parser checks, what --help says and
// what a shell completes all come from here.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace attn {

// Type names of options whose values are files; a shell completes them.
inline constexpr char kFileType[] = "FILE";
inline constexpr char kNamedFileType[] = "NAME=FILE";
inline constexpr char kFolderType[] = "FOLDER";
inline constexpr char kNumberType[] = "NUMBER";

// For option->transform(): one of `values`, in any case of letters; the option
// gets it as it is written here. Other text is an error that lists them.
CLI::Validator OneOf(std::vector<std::string> values);

// The names of the types of floats, f32 first.
std::vector<std::string> FloatNames();

// The fixed values of an option: those of OneOf(), or those that a type name
// lists, as in "top_left|bottom_right". Empty: it takes any text.
std::vector<std::string> ChoicesOf(const CLI::Option& option);

// The name of the type without what OneOf() adds: "FILE", "TEXT".
std::string TypeOf(const CLI::Option& option);

bool TakesFile(const CLI::Option& option);

// "--name", or "-n" where there is no long name, or a positional's "NAME".
std::string NameOf(const CLI::Option& option);

// A flag takes no value.
bool IsFlag(const CLI::Option& option);

// "--causal" may stand without a value, which else follows as "--causal=x".
bool MayStandAlone(const CLI::Option& option);

// a, b or c
std::string JoinChoices(const std::vector<std::string>& values);

}  // namespace attn
