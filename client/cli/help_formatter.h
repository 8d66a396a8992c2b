// How --help looks: options in groups, descriptions wrapped, each with its
// default and its variable of the environment.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace attn {

// Breaks `text` at blanks so that lines after the first, which begins in column
// `column`, are indented to it and none ends beyond `width`, words permitting.
std::string WrapText(const std::string& text, size_t column, size_t width);

// To be given to the program before its commands are added. Stateless.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_group(
      std::string group, bool is_positional,
      std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  // Names the options of the program that a command takes as well.
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace attn
