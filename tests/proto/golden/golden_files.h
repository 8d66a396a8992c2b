// The frozen files of tests/proto/golden.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace attn {

inline std::string ReadGolden(const std::string& name) {
  const std::ifstream file(ATTN_GOLDEN_DIR "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The bytes of a file of hex digits in lines.
inline std::string ReadGoldenHex(const std::string& name) {
  std::istringstream lines(ReadGolden(name));
  std::string bytes;
  for (std::string line; std::getline(lines, line);) {
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      bytes.push_back(
          static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16)));
    }
  }
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

}  // namespace attn
