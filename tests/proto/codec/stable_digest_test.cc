#include "proto/codec/stable_digest.h"

#include <set>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace attn {
namespace {

uint64_t DigestOfText(std::string_view text) {
  StableDigest digest;
  digest.Add(reinterpret_cast<const std::byte*>(text.data()), text.size());
  return digest.value();
}

// By another program, from the formula in the source: another value would have
// every session of an older server take its last step for a new one.
TEST(StableDigest, IsTheSameInEveryProcess) {
  StableDigest digest;
  digest.Add(7);
  constexpr std::string_view kText = "attention is a service";
  digest.Add(reinterpret_cast<const std::byte*>(kText.data()), kText.size());
  EXPECT_EQ(digest.value(), 0xc59f15cfb68b8476U);
}

TEST(StableDigest, TellsEveryBitAndEveryLengthApart) {
  const std::string zeros(40, '\0');
  std::set<uint64_t> seen;
  size_t count = 0;
  for (size_t size = 0; size <= zeros.size(); ++size, ++count) {
    seen.insert(DigestOfText(zeros.substr(0, size)));
  }
  for (size_t bit = 0; bit < 8 * zeros.size(); ++bit, ++count) {
    std::string text = zeros;
    text[bit / 8] = static_cast<char>(1 << bit % 8);
    seen.insert(DigestOfText(text));
  }
  EXPECT_EQ(seen.size(), count);
}

TEST(StableDigest, TellsOrdersApart) {
  StableDigest forwards;
  forwards.Add(1);
  forwards.Add(2);
  StableDigest backwards;
  backwards.Add(2);
  backwards.Add(1);
  EXPECT_NE(forwards.value(), backwards.value());
}

}  // namespace
}  // namespace attn
