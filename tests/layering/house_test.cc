// The repository keeps to its own size limits and its top level stays as
// designed.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/layering/include_scanner.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFileLines = 600;
constexpr int kMaxHeaderLines = 150;

int CountLines(const fs::path& file) {
  std::ifstream stream(file);
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(stream),
                                     std::istreambuf_iterator<char>(), '\n'));
}

TEST(House, TheTopLevelHoldsOnlyWhatTheDesignNames) {
  const std::set<std::string> designed = {
      "proto",      "server",    "client",         "engine",
      "deploy",     "tests",     "CMakeLists.txt", "CMakePresets.json",
      "Dockerfile", "README.md", "LICENSE"};
  // Not kept by git: see .gitignore.
  const std::set<std::string> ignored = {"build", "node_modules"};
  for (const auto& entry : fs::directory_iterator(ATTN_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || ignored.count(name) != 0) continue;
    EXPECT_TRUE(designed.count(name) != 0)
        << name << " is not part of the top level";
  }
}

TEST(House, NoFileIsLongerThanItsLimit) {
  for (const char* top : {"engine", "proto", "server", "client", "tests"}) {
    for (const std::string& file : SourceFiles(ATTN_SOURCE_DIR, top)) {
      const bool header = fs::path(file).extension() == ".h" &&
                          file.find("-inl.h") == std::string::npos;
      const int limit = header ? kMaxHeaderLines : kMaxFileLines;
      EXPECT_LE(CountLines(fs::path(ATTN_SOURCE_DIR) / file), limit) << file;
    }
  }
}

TEST(House, EveryHeaderIsGuardedByPragmaOnce) {
  for (const char* top : {"engine", "proto", "server", "client", "tests"}) {
    for (const std::string& file : SourceFiles(ATTN_SOURCE_DIR, top)) {
      // Highway includes its per-target headers once for each target.
      if (fs::path(file).extension() != ".h" ||
          file.find("-inl.h") != std::string::npos) {
        continue;
      }
      std::ifstream stream(fs::path(ATTN_SOURCE_DIR) / file);
      const std::string text{std::istreambuf_iterator<char>(stream), {}};
      EXPECT_THAT(text, ::testing::HasSubstr("\n#pragma once\n")) << file;
    }
  }
}

}  // namespace
}  // namespace attn
