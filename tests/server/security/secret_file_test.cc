#include "server/security/secret_file.h"

#include <sys/stat.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

std::string WhyNot(const std::string& path) {
  return std::string(ReadSecretFile(path).status().message());
}

TEST(SecretFile, IsReadWhole) {
  const ScratchFolder folder;
  const std::string text("a\0b\n", 4);
  EXPECT_EQ(ReadSecretFile(folder.Write("f", text))->text, text);
  EXPECT_EQ(ReadSecretFile(folder.Write("empty", ""))->text, "");
}

TEST(SecretFile, ThatEverybodyMayReadIsMarked) {
  const ScratchFolder folder;
  const std::string path = folder.Write("f", "x");
  chmod(path.c_str(), 0640);
  EXPECT_FALSE(ReadSecretFile(path)->open_to_all);
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(ReadSecretFile(path)->open_to_all);
}

TEST(SecretFile, WhatIsNoSmallFileIsRefused) {
  const ScratchFolder folder;
  EXPECT_THAT(WhyNot(folder.File("none")), HasSubstr("No such file"));
  EXPECT_THAT(WhyNot(folder.path()), HasSubstr("no regular file"));
  EXPECT_THAT(WhyNot(folder.Write("f", std::string((1 << 20) + 1, 'x'))),
              HasSubstr("larger than 1 MiB"));
  // Opening a pipe must not wait for somebody to write into it.
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(WhyNot(pipe), HasSubstr("no regular file"));
}

}  // namespace
}  // namespace attn
