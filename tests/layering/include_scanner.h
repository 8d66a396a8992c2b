// Finds what every source file of the repository includes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attn {

// One include directive, e.g. server/rpc/a.cc:7 "engine/engine.h".
struct Include {
  // Relative to the root, with '/'.
  std::string file;
  int line = 0;
  std::string target;
};

// The .h, .cc and -inl.h files below `root`/`folder`, relative to `root`,
// sorted.
std::vector<std::string> SourceFiles(const std::filesystem::path& root,
                                     const std::string& folder);

// The literal includes of one file, in order; `#include MACRO` is left out.
std::vector<Include> ScanFile(const std::filesystem::path& root,
                              const std::string& file);

}  // namespace attn
