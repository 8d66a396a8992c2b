#include "tests/layering/include_scanner.h"

#include <algorithm>
#include <fstream>
#include <regex>

namespace attn {
namespace fs = std::filesystem;

std::vector<std::string> SourceFiles(const fs::path& root,
                                     const std::string& folder) {
  std::vector<std::string> files;
  if (!fs::is_directory(root / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cc") continue;
    files.push_back(fs::relative(entry.path(), root).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Include> ScanFile(const fs::path& root, const std::string& file) {
  static const std::regex directive(
      R"re(^\s*#\s*include\s*(["<])([^">]+)[">].*)re");
  std::vector<Include> includes;
  std::ifstream stream(root / file);
  std::string text;
  for (int line = 1; std::getline(stream, text); ++line) {
    std::smatch match;
    if (std::regex_match(text, match, directive)) {
      includes.push_back({file, line, match[2].str()});
    }
  }
  return includes;
}

}  // namespace attn
