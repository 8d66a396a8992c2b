// Every table against its folder and against the order of its variant.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "engine/biases/bias.h"
#include "engine/masks/mask.h"
#include "engine/normalizers/normalizer.h"
#include "engine/scores/score.h"
#include "engine/sparsifiers/sparsifier.h"
#include "engine/transforms/transform.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

namespace fs = std::filesystem;

// The members of a room: one source each, which gives its row as ...Entry().
std::set<std::string> SourcesOf(const std::string& room) {
  std::set<std::string> names;
  const fs::path folder = fs::path(ATTN_SOURCE_DIR) / "engine" / room;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (text.find("Entry() {") != std::string::npos) {
      names.insert(entry.path().stem().string());
    }
  }
  return names;
}

// The std::variant that a spec is or derives from.
template <typename... T>
std::variant<T...> VariantOf(const std::variant<T...>&);
template <typename Spec>
using Members = decltype(VariantOf(std::declval<const Spec&>()));

template <typename Spec, typename Entry>
void ExpectTableHoldsFolder(const std::string& room,
                            absl::Span<const Entry> table) {
  std::set<std::string> names;
  EXPECT_EQ(table.size(), std::variant_size_v<Members<Spec>>) << room;
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i].index, i) << table[i].name;
    EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
    EXPECT_GT(std::string(table[i].summary).size(), 5U) << table[i].name;
  }
  EXPECT_EQ(names, SourcesOf(room)) << room;
}

// Gives every member of a variant to the row at its place, which takes no
// other: a row of another member would not find its own.
template <typename Spec, typename Entry, typename... Member>
void ExpectRowsTakeTheirMembers(absl::Span<const Entry> table,
                                std::variant<Member...>* /*members*/) {
  const auto expect = [&table](const Spec& spec) {
    ASSERT_LT(spec.index(), table.size());
    EXPECT_FALSE(table[spec.index()].describe(spec).empty());
  };
  (expect(Spec(Member{})), ...);
}

template <typename Spec, typename Entry>
void ExpectTableIsWhole(const std::string& room,
                        absl::Span<const Entry> table) {
  ExpectTableHoldsFolder<Spec>(room, table);
  Members<Spec>* const members = nullptr;
  ExpectRowsTakeTheirMembers<Spec>(table, members);
}

TEST(StageTables, EachFolderAndItsTableAgree) {
  ExpectTableIsWhole<TransformSpec>("transforms", TransformTable());
  ExpectTableIsWhole<ScoreSpec>("scores", ScoreTable());
  ExpectTableIsWhole<BiasSpec>("biases", BiasTable());
  ExpectTableIsWhole<MaskSpec>("masks", MaskTable());
  ExpectTableIsWhole<SparsifierSpec>("sparsifiers", SparsifierTable());
  ExpectTableIsWhole<NormalizerSpec>("normalizers", NormalizerTable());
}

template <typename Member, typename Spec, typename Entry>
void ExpectAt(absl::Span<const Entry> table, const std::string& name) {
  EXPECT_EQ(table[Spec(Member{}).index()].name, name);
}

TEST(StageTables, EachMemberStandsWhereItsVariantSays) {
  ExpectAt<RotaryTransform, TransformSpec>(TransformTable(), "rotary");
  ExpectAt<DotScore, ScoreSpec>(ScoreTable(), "dot");
  ExpectAt<DistanceScore, ScoreSpec>(ScoreTable(), "distance");
  ExpectAt<DenseBias, BiasSpec>(BiasTable(), "dense");
  ExpectAt<AlibiBias, BiasSpec>(BiasTable(), "alibi");
  ExpectAt<CausalMask, MaskSpec>(MaskTable(), "causal");
  ExpectAt<WindowMask, MaskSpec>(MaskTable(), "window");
  ExpectAt<ProgramMask, MaskSpec>(MaskTable(), "program");
  ExpectAt<TopPSparsifier, SparsifierSpec>(SparsifierTable(), "top_p");
  ExpectAt<SoftmaxNormalizer, NormalizerSpec>(NormalizerTable(), "softmax");
  ExpectAt<LinearNormalizer, NormalizerSpec>(NormalizerTable(), "linear");
}

// Where the rooms of the house are: folders that hold sources.
TEST(Rooms, EachHasAReadme) {
  for (const char* top : {"engine", "server", "client"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(ATTN_SOURCE_DIR) / top)) {
      if (!entry.is_directory()) continue;
      EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << entry.path();
    }
  }
}

}  // namespace
}  // namespace attn
