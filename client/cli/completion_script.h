// Completion for shells, made from the parser itself: its commands, options,
// their values and what takes a file. Nothing is listed a second time.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace attn {

// A script for bash (3.2 or newer) that defines _attn and registers it. `app`
// is the whole program; the function is named after it.
std::string BashCompletion(const CLI::App& app);

// The same for zsh, to be sourced or to stand as _attn in $fpath.
std::string ZshCompletion(const CLI::App& app);

}  // namespace attn
