// Every table against its folder and against the order of its variant.
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "engine/biases/bias.h"
#include "engine/masks/mask.h"
#include "engine/normalizers/normalizer.h"
#include "engine/scores/score.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

// The members of a room: one source each, but for the table itself.
std::set<std::string> SourcesOf(const std::string& room) {
  std::set<std::string> names;
  const fs::path folder = fs::path(ATTN_SOURCE_DIR) / "engine" / room;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() != ".cc" || stem.ends_with("_table")) continue;
    names.insert(stem);
  }
  return names;
}

template <typename Spec, typename Entry>
void ExpectTableHoldsFolder(const std::string& room,
                            absl::Span<const Entry> table) {
  std::set<std::string> names;
  EXPECT_EQ(table.size(), std::variant_size_v<Spec>) << room;
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i].index, i) << table[i].name;
    EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
    EXPECT_GT(std::string(table[i].summary).size(), 5U) << table[i].name;
  }
  EXPECT_EQ(names, SourcesOf(room)) << room;
}

// The name in the row at the place that `Member` has in its variant, and
// whether the row's own functions take that member.
template <typename Member, typename Spec, typename Entry>
std::string NameOf(absl::Span<const Entry> table) {
  const Spec spec = Member{};
  const Entry& entry = table[spec.index()];
  EXPECT_FALSE(entry.describe(spec).empty());
  return entry.name;
}

TEST(StageTables, EachFolderAndItsTableAgree) {
  ExpectTableHoldsFolder<ScoreSpec>("scores", ScoreTable());
  ExpectTableHoldsFolder<BiasSpec>("biases", BiasTable());
  ExpectTableHoldsFolder<MaskSpec>("masks", MaskTable());
  ExpectTableHoldsFolder<NormalizerSpec>("normalizers", NormalizerTable());
}

TEST(StageTables, EachMemberStandsWhereItsVariantSays) {
  EXPECT_EQ((NameOf<DotScore, ScoreSpec>(ScoreTable())), "dot");
  EXPECT_EQ((NameOf<DenseBias, BiasSpec>(BiasTable())), "dense");
  EXPECT_EQ((NameOf<AlibiBias, BiasSpec>(BiasTable())), "alibi");
  EXPECT_EQ((NameOf<CausalMask, MaskSpec>(MaskTable())), "causal");
  EXPECT_EQ((NameOf<WindowMask, MaskSpec>(MaskTable())), "window");
  EXPECT_EQ((NameOf<DenseMask, MaskSpec>(MaskTable())), "dense");
  EXPECT_EQ((NameOf<SoftmaxNormalizer, NormalizerSpec>(NormalizerTable())),
            "softmax");
}

}  // namespace
}  // namespace attn
