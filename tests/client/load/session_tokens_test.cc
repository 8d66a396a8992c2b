#include "client/load/session_tokens.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int64_t kFirst = 50;
constexpr int kLayers = 3;

CallProfile Profile() {
  CallProfile profile;
  profile.kind = CallKind::kSession;
  profile.shape = ParseCallShape("1,4,2,2,50,8,6").value();
  profile.dtype = DType::kBF16;
  profile.sessions = {.layers = kLayers, .chunk = 16};
  return profile;
}

// The bytes of each row of a head's k.
std::vector<std::string> KeyRows(const TensorView& k, int64_t head) {
  constexpr int64_t kBytes = 2;
  const int64_t width = k.shape[3] * kBytes;
  std::vector<std::string> rows;
  for (int64_t row = 0; row < k.shape[2]; ++row) {
    const auto* data = reinterpret_cast<const char*>(k.data) +
                       (head * k.strides[1] + row * k.strides[2]) * kBytes;
    rows.emplace_back(data, static_cast<size_t>(width));
  }
  return rows;
}

// The k of the first tokens from `begin` to `end`, step by step.
std::vector<std::string> FirstRows(const SessionTokens& tokens, int64_t begin,
                                   int64_t end) {
  std::vector<std::string> rows;
  for (int64_t at = begin; at < end; at += tokens.CountOfFirst(at, end)) {
    const std::vector<StepTensors> step = tokens.First(at, end);
    EXPECT_EQ(step.size(), size_t{kLayers});
    EXPECT_EQ(step.back().layer, kLayers - 1);
    EXPECT_EQ(step[0].q.shape, (Shape{1, 4, tokens.CountOfFirst(at, end), 8}));
    EXPECT_EQ(step[0].v.shape, (Shape{1, 2, tokens.CountOfFirst(at, end), 6}));
    for (std::string& row : KeyRows(step[0].k, 1)) rows.push_back(row);
  }
  return rows;
}

TEST(SessionTokens, AForkGoesOnWithWhatItsOriginalWouldHaveHad) {
  const SessionTokens tokens = SessionTokens::Draw(Profile(), 4).value();
  const std::vector<std::string> whole = FirstRows(tokens, 0, kFirst);
  ASSERT_EQ(whole.size(), size_t{kFirst});
  EXPECT_NE(whole[0], whole[1]);
  for (const int64_t shared : {1, 16, 17, 49, 50}) {
    std::vector<std::string> parts = FirstRows(tokens, 0, shared);
    for (std::string& row : FirstRows(tokens, shared, kFirst)) {
      parts.push_back(row);
    }
    EXPECT_EQ(parts, whole) << shared;
  }
}

TEST(SessionTokens, StepsTakeTurnsWithThePayloads) {
  const SessionTokens tokens = SessionTokens::Draw(Profile(), 4).value();
  EXPECT_EQ(tokens.TurnOf(kFirst), 0);
  EXPECT_EQ(tokens.TurnOf(kFirst + 2 * 5), 5);
  const auto step = [&](int64_t turn, size_t layer) {
    return KeyRows(tokens.Decoded(kFirst + 2 * turn)[layer].k, 0);
  };
  EXPECT_NE(step(0, 0), step(1, 0));
  EXPECT_NE(step(0, 0), step(0, 1));
  EXPECT_EQ(step(0, 0), step(4, 0));
  EXPECT_EQ(step(0, 0).size(), 2u);
}

}  // namespace
}  // namespace attn
