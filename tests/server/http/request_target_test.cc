#include "server/http/request_target.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

HttpRequest ReadOf(absl::string_view target) {
  HttpRequest request;
  ReadTarget(target, request);
  return request;
}

// RFC 3986, section 2.1.
TEST(PercentDecodeTest, APairOfHexadecimalDigitsIsAByte) {
  EXPECT_EQ(PercentDecode("a%20b%2Fc%2f"), "a b/c/");
  EXPECT_EQ(PercentDecode("%C3%A9"), "\xC3\xA9");
  EXPECT_EQ(PercentDecode("%00"), std::string(1, '\0'));
  EXPECT_EQ(PercentDecode("%25%32%30"), "%20");
  // Of forms only, not of URIs.
  EXPECT_EQ(PercentDecode("a+b"), "a+b");
  EXPECT_EQ(PercentDecode(""), "");
}

TEST(PercentDecodeTest, APercentWithoutTwoOfThemIsNothing) {
  for (const char* text : {"%", "a%2", "%G0", "%0g", "% 1", "%-1", "%%20"}) {
    EXPECT_EQ(PercentDecode(text), std::nullopt) << text;
  }
}

TEST(ReadTargetTest, ThePathEndsAtTheFirstQuestionMark) {
  const HttpRequest request = ReadOf("/v1/layers/a%3Fb?page=?&x=1");
  EXPECT_EQ(request.path, "/v1/layers/a?b");
  EXPECT_THAT(request.query, ElementsAre(Pair("page", "?"), Pair("x", "1")));
}

TEST(ReadTargetTest, TheQueryIsSplitBeforeItIsDecoded) {
  const HttpRequest request = ReadOf("/?a%3D=%26b&c==");
  EXPECT_THAT(request.query, ElementsAre(Pair("a=", "&b"), Pair("c", "=")));
}

TEST(ReadTargetTest, OfANameThatStandsTwiceTheLastCounts) {
  EXPECT_THAT(ReadOf("/?a=1&b&&a=2").query,
              ElementsAre(Pair("a", "2"), Pair("b", "")));
}

TEST(ReadTargetTest, WhatCannotBeDecodedLeavesThePathEmpty) {
  EXPECT_EQ(ReadOf("/a%2?b=1").path, "");
  const HttpRequest request = ReadOf("/a?b=%&c=1");
  EXPECT_EQ(request.path, "/a");
  EXPECT_THAT(request.query, ElementsAre(Pair("c", "1")));
  EXPECT_THAT(ReadOf("").query, IsEmpty());
}

}  // namespace
}  // namespace attn
