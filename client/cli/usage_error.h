// What is wrong with a command line, in one line, and what may have been meant.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace attn {

// "attend: unknown option --casual; did you mean --causal?" `app` is the whole
// program, which has parsed the command line and thrown `error`.
std::string DescribeUsageError(const CLI::App& app,
                               const CLI::ParseError& error);

// The names of the commands below `app`, in the order of its help.
std::vector<std::string> CommandNames(const CLI::App& app);

// "attn layer put": the names from the program down to `app`.
std::string PathOf(const CLI::App& app);

}  // namespace attn
