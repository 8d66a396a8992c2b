// The part of a call that is about some of its keys.
#include "client/library/key_shard.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/client/library/owned_call.h"

namespace attn {
namespace {

TEST(DivideKeys, PartsAreInOrderWholeAndNearlyAlike) {
  for (const int64_t keys : {0, 1, 63, 64, 65, 200, 4096, 100000}) {
    for (const int64_t count : {1, 2, 3, 7, 1000}) {
      const auto ranges = DivideKeys(keys, count);
      ASSERT_FALSE(ranges.empty());
      EXPECT_LE(ranges.size(), static_cast<size_t>(count));
      int64_t end = 0;
      int64_t longest = 0;
      int64_t shortest = keys;
      for (const ShardRange& range : ranges) {
        EXPECT_EQ(range.begin, end);
        EXPECT_EQ(range.begin % 64, 0);
        EXPECT_TRUE(range.end > range.begin || keys == 0);
        longest = std::max(longest, range.end - range.begin);
        shortest = std::min(shortest, range.end - range.begin);
        end = range.end;
      }
      EXPECT_EQ(end, keys);
      EXPECT_LE(longest - shortest, 127) << keys << " by " << count;
    }
  }
}

// 64 columns fit each of the parts, and would have been added to all of them.
TEST(ShardOf, ABiasAsLongAsAPartIsNotOneOfAllKeys) {
  OwnedCall call(4, 128, 13);
  call.message.spec.biases = {
      DenseBias{call.Bring(Normal({1, 1, 4, 64}, call.random))}};
  const auto shard = ShardOf(call.message, {0, 64});
  EXPECT_TRUE(absl::IsInvalidArgument(shard.status())) << shard.status();
  EXPECT_EQ(FieldOf(shard.status()), "spec.biases[0]");
}

TEST(ShardOf, RefusesWhatSomeKeysAloneDoNotTell) {
  struct Refused {
    const char* field;
    std::function<void(AttendMessage&)> change;
  };
  const std::vector<Refused> cases = {
      {"spec.sparsifiers",
       [](auto& m) { m.spec.sparsifiers = {TopKSparsifier{}}; }},
      {"spec.normalizer",
       [](auto& m) { m.spec.normalizer = SparsemaxNormalizer{}; }},
      {"spec.biases[0]", [](auto& m) { m.spec.biases = {AlibiBias{}}; }},
      {"spec.biases[0]", [](auto& m) { m.spec.biases = {DenseBias{4}}; }},
      {"spec.masks[1]",
       [](auto& m) {
         m.spec.masks = {CausalMask{Alignment::kTopLeft}, PrefixMask{}};
       }},
      {"spec.masks[0]", [](auto& m) { m.spec.masks = {DenseMask{0}}; }},
      {"spec.masks[0].alignment",
       [](auto& m) { m.spec.masks = {CausalMask{}}; }},
      {"spec.masks[0]",
       [](auto& m) {
         m.spec.masks = {CausalMask{Alignment::kTopLeft}};
         m.args.kv_lengths = {100, 100};
       }},
      {"spec.transforms[0]",
       [](auto& m) {
         RotaryTransform turn;
         turn.cos = 0;
         m.spec.transforms = {turn};
       }},
      {"spec.score_program",
       [](auto& m) {
         m.spec.score_program = ProgramSpec{"score", {}};
       }},
      {"spec.weight_program",
       [](auto& m) {
         m.spec.weight_program = ProgramSpec{"weight", {}};
       }},
      {"spec.dropout", [](auto& m) { m.spec.dropout = DropoutSpec{}; }},
      {"spec.kv_quantization",
       [](auto& m) { m.spec.kv_quantization = KvQuantization{}; }},
      {"spec.projections",
       [](auto& m) { m.spec.projections = ProjectionSpec{}; }},
      {"kv_offsets",
       [](auto& m) {
         m.args.q_offsets = {0, 3};
       }},
      {"qkv", [](auto& m) { m.qkv = m.args.k; }},
      {"q.shape",
       [](auto& m) {
         m.args.q.shape = {4, kWidth};
       }},
      {"v.shape",
       [](auto& m) {
         m.args.v.shape = {kBatch, kKeyHeads, 299, kWidth};
       }},
      {"kv_lengths[1]",
       [](auto& m) {
         m.args.kv_lengths = {300, 301};
       }},
      {"kv_lengths[0]",
       [](auto& m) {
         m.args.kv_lengths = {-1, 300};
       }},
      {"spec.masks[0].window",
       [](auto& m) {
         m.spec.masks = {WindowMask{.left = -1,
                                    .right = std::nullopt,
                                    .alignment = Alignment::kTopLeft}};
       }},
      {"wanted", [](auto& m) { m.wanted.weights = true; }},
      {"wanted", [](auto& m) { m.wanted.row_statistics = true; }}};
  for (const Refused& each : cases) {
    OwnedCall call(4, 300, 1);
    each.change(call.message);
    const auto shard = ShardOf(call.message, {0, 64});
    EXPECT_TRUE(absl::IsInvalidArgument(shard.status()))
        << each.field << ": " << shard.status();
    EXPECT_EQ(FieldOf(shard.status()), each.field) << shard.status();
  }
  OwnedCall call(4, 300, 1);
  for (const ShardRange& range :
       {ShardRange{-1, 3}, ShardRange{5, 4}, ShardRange{0, 301}}) {
    EXPECT_EQ(FieldOf(ShardOf(call.message, range).status()), "range");
  }
}

}  // namespace
}  // namespace attn
