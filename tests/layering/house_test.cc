// The repository keeps to its own size limits and its top level stays as
// designed.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

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
    if (name[0] == '.' || ignored.contains(name)) continue;
    EXPECT_TRUE(designed.contains(name))
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

// Names of the classes and structs that a header defines in namespace attn,
// outside of other classes.
std::vector<std::string> TypesOf(const fs::path& header) {
  std::vector<std::string> types;
  std::ifstream stream(header);
  const std::regex definition(
      "^(?:class|struct)(?: ATTN_TS\\(.*\\))? ([A-Z]\\w+)[^;]*$");
  for (std::string line; std::getline(stream, line);) {
    std::smatch match;
    if (std::regex_match(line, match, definition)) types.push_back(match[1]);
  }
  return types;
}

// Two types of one name share the symbols of their implicit members, and the
// linker keeps either: the address sanitizer found two such pairs.
TEST(House, NoTwoHeadersDefineATypeOfTheSameName) {
  std::map<std::string, std::string> defined_in;
  for (const char* top : {"engine", "proto", "server", "client"}) {
    for (const std::string& file : SourceFiles(ATTN_SOURCE_DIR, top)) {
      if (fs::path(file).extension() != ".h") continue;
      for (const std::string& type :
           TypesOf(fs::path(ATTN_SOURCE_DIR) / file)) {
        const auto [known, is_new] = defined_in.emplace(type, file);
        EXPECT_TRUE(is_new)
            << type << " is defined in " << known->second << " and in " << file;
      }
    }
  }
  EXPECT_GT(defined_in.size(), 100U);  // the pattern matches what it should
}

// It proves that the header compiles alone.
TEST(House, EverySourceIncludesItsOwnHeaderFirst) {
  int proven = 0;
  for (const char* top : {"engine", "proto", "server", "client"}) {
    for (const std::string& file : SourceFiles(ATTN_SOURCE_DIR, top)) {
      const fs::path own = fs::path(file).replace_extension(".h");
      if (fs::path(file).extension() != ".cc" ||
          !fs::exists(fs::path(ATTN_SOURCE_DIR) / own)) {
        continue;
      }
      const std::vector<Include> includes = ScanFile(ATTN_SOURCE_DIR, file);
      ASSERT_FALSE(includes.empty()) << file;
      EXPECT_EQ(includes.front().target, own.string()) << file;
      ++proven;
    }
  }
  EXPECT_GT(proven, 100);  // they are really read
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
