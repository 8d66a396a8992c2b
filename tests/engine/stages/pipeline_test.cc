#include "engine/kernels/pipeline.h"

#include <cmath>
#include <random>
#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

// A call with every stage on: [2, 2, 5, 9], ragged, bottom right.
class FullCall {
 public:
  FullCall() : call_(2, 2, 5, 9) {
    call_.QLengths({5, 3}).KvLengths({9, 6});
    AttentionSpec& spec = call_.spec();
    spec.softcap = 3.0;
    spec.biases = {
        DenseBias{call_.AddInput<float>(DType::kF32, {9}, bias_)},
        AlibiBias{{0.5, 0.25}},
    };
    spec.masks = {CausalMask{Alignment::kBottomRight},
                  WindowMask{6, std::nullopt, Alignment::kBottomRight},
                  DenseMask{call_.AddInput<uint8_t>(DType::kBool, {9}, mask_)}};
    spec.temperatures = {2.0, 0.5};
  }

  StageCall& call() { return call_; }
  CallView view() const { return call_.view(); }

  // The rules of SEMANTICS, written out for one element.
  double Final(double score, int64_t batch, int64_t head, int64_t i,
               int64_t j) const {
    const int64_t q_length = batch == 0 ? 5 : 3;
    const int64_t kv_length = batch == 0 ? 9 : 6;
    const int64_t position = i + kv_length - 5;
    const bool allowed = i < q_length && j < kv_length && j <= position &&
                         j >= position - 6 &&
                         mask_[static_cast<size_t>(j)] != 0;
    if (!allowed) return -kInf;
    const double slope = head == 0 ? 0.5 : 0.25;
    double z = 3 * std::tanh(score / 3);
    z += static_cast<double>(bias_[static_cast<size_t>(j)]);
    z -= slope * static_cast<double>(std::abs(i + 9 - 5 - j));
    return z / (head == 0 ? 2.0 : 0.5);
  }

 private:
  std::vector<float> bias_ = {0, 1, -1, 0.5F, 2, -3, 0.25F, 1, 0};
  std::vector<uint8_t> mask_ = {0, 1, 1, 0, 1, 1, 1, 1, 1};
  StageCall call_;
};

// Finishes a tile of the scores row - key and compares it with the rules.
template <typename T>
void ExpectTileFinished(const FullCall& full, const Pipeline& pipeline,
                        const TileBounds& b, double tolerance) {
  OwnedTile<T> tile(b);
  const auto score = [&b](int64_t r, int64_t j) {
    return static_cast<double>(b.row_begin + r - b.key_begin - j);
  };
  for (int64_t r = 0; r < b.rows; ++r) {
    for (int64_t j = 0; j < b.keys; ++j) {
      tile.At(r, j) = static_cast<T>(score(r, j));
    }
  }
  pipeline.Finish(full.view(), tile.tile(), nullptr);
  for (int64_t r = 0; r < b.rows; ++r) {
    for (int64_t j = 0; j < b.keys; ++j) {
      const double want = full.Final(score(r, j), b.batch, b.head,
                                     b.row_begin + r, b.key_begin + j);
      const double got = tile.At(r, j);
      ASSERT_TRUE(got == want || std::abs(got - want) <= tolerance)
          << got << " for " << want;
    }
  }
}

template <typename T>
void ExpectFinished(double tolerance) {
  FullCall full;
  ASSERT_TRUE(ValidateStages(full.call().problem()).ok());
  const Pipeline pipeline(full.call().problem());
  for (const int64_t batch : {0, 1}) {
    for (const int64_t head : {0, 1}) {
      ForEachTile(full.call().shape(), batch, head, [&](const TileBounds& b) {
        ExpectTileFinished<T>(full, pipeline, b, tolerance);
      });
    }
  }
}

TEST(Pipeline, FinishesEveryTileAsTheRulesSayInFloat) {
  ExpectFinished<float>(5e-6);
}

TEST(Pipeline, FinishesEveryTileAsTheRulesSayInDouble) {
  ExpectFinished<double>(1e-13);
}

TEST(Pipeline, VisibleKeysAreTheHullOfTheRowsRules) {
  FullCall full;
  const Pipeline pipeline(full.call().problem());
  for (const int64_t batch : {0, 1}) {
    for (int64_t row = 0; row < 5; ++row) {
      const KeyRange keys =
          pipeline.VisibleKeys(full.call().view(), {batch, 0, row, 1, 0, 0});
      int64_t first = 9;
      int64_t end = 0;
      for (int64_t j = 0; j < 9; ++j) {
        if (std::isinf(full.Final(0, batch, 0, row, j))) continue;
        first = std::min(first, j);
        end = j + 1;
      }
      EXPECT_LE(keys.begin, first);
      EXPECT_GE(keys.end, end);
      // Key 0 is hidden by the padding mask, and no row sees past its own key.
      if (!keys.empty()) {
        EXPECT_GE(keys.begin, 1);
      }
      EXPECT_LE(keys.end, batch == 0 ? row + 5 : std::max<int64_t>(row + 2, 0));
    }
  }
}

TEST(Pipeline, RowsBeyondTheirLengthSeeNothing) {
  StageCall call(1, 1, 6, 4);
  call.QLengths({2});
  const Pipeline pipeline(call.problem());
  EXPECT_TRUE(pipeline.VisibleKeys(call.view(), {0, 0, 2, 4, 0, 0}).empty());
  const KeyRange keys = pipeline.VisibleKeys(call.view(), {0, 0, 0, 6, 0, 0});
  EXPECT_EQ(keys.begin, 0);
  EXPECT_EQ(keys.end, 4);
  OwnedTile<float> tile({0, 0, 1, 2, 0, 4}, 7.0F);
  pipeline.Finish(call.view(), tile.tile(), nullptr);
  EXPECT_EQ(tile.At(0, 3), 7.0F);
  EXPECT_EQ(tile.At(1, 0), -std::numeric_limits<float>::infinity());
}

TEST(Pipeline, WhatIsBehindAMaskOrALengthIsOverwritten) {
  FullCall full;
  const Pipeline pipeline(full.call().problem());
  OwnedTile<float> tile({1, 0, 0, 5, 0, 9},
                        std::numeric_limits<float>::quiet_NaN());
  pipeline.Finish(full.call().view(), tile.tile(), nullptr);
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 9; ++j) {
      const bool visible = !std::isinf(full.Final(0, 1, 0, i, j));
      EXPECT_EQ(std::isnan(tile.At(i, j)), visible) << i << " " << j;
    }
  }
}

TEST(Pipeline, OneTemperatureServesAllHeads) {
  StageCall call(1, 3, 1, 1);
  call.spec().temperatures = {4.0};
  const Pipeline pipeline(call.problem());
  OwnedTile<double> tile({0, 2, 0, 1, 0, 1}, 2.0);
  pipeline.Finish(call.view(), tile.tile(), nullptr);
  EXPECT_EQ(tile.At(0, 0), 0.5);
}

TEST(Pipeline, OptionsThatNoFloatHoldsDoNotMakeNaN) {
  StageCall call(1, 1, 1, 2);
  call.spec().softcap = 1e300;
  call.spec().temperatures = {1e-300};
  const Pipeline pipeline(call.problem());
  OwnedTile<float> tile({0, 0, 0, 1, 0, 2}, 0.0F);
  tile.At(0, 1) = -3;
  pipeline.Finish(call.view(), tile.tile(), nullptr);
  EXPECT_EQ(tile.At(0, 0), 0.0F);
  EXPECT_EQ(tile.At(0, 1), std::numeric_limits<float>::lowest());
}

TEST(Pipeline, TheStagesAreDescribedInOrder) {
  FullCall full;
  EXPECT_EQ(DescribeStages(full.call().problem()),
            "dot * 0.5 -> softcap 3 -> + dense(inputs[0]) -> + alibi(slopes) "
            "-> causal(bottom_right) -> window(6, unbounded, bottom_right) -> "
            "dense(inputs[1]) -> q_lengths -> kv_lengths -> / temperature[h] "
            "-> softmax");
  StageCall plain(1, 1, 2, 2);
  plain.spec().masks = {CausalMask{}, WindowMask{1, 0}};
  plain.spec().biases = {AlibiBias{}};
  plain.spec().temperatures = {0.5};
  EXPECT_EQ(DescribeStages(plain.problem()),
            "dot * 0.5 -> + alibi -> causal -> window(1, 0) -> / temperature "
            "0.5 -> softmax");
}

TEST(Pipeline, TheEffectiveScaleIsTheOneThatIsApplied) {
  StageCall call(1, 1, 1, 1);
  EXPECT_EQ(EffectiveScale(call.problem()), 0.5);  // d_k = 4
  call.spec().score = DotScore{.scale = -0.25, .learned_scale = {}};
  EXPECT_EQ(EffectiveScale(call.problem()), -0.25);
  EXPECT_EQ(Pipeline(call.problem()).score().scale(call.view(), 0), -0.25);
}

TEST(Pipeline, ErrorsNameTheMemberOfTheList) {
  StageCall call(1, 1, 2, 3);
  const auto field = [&call] {
    return FieldOf(ValidateStages(call.problem()));
  };
  EXPECT_EQ(field(), std::nullopt);
  call.spec().masks = {CausalMask{Alignment::kTopLeft}, CausalMask{}};
  EXPECT_EQ(field(), "spec.masks[1].causal.alignment");
  call.spec().biases = {AlibiBias{}, DenseBias{7}};
  EXPECT_EQ(field(), "spec.biases[1].dense.tensor.input");
  call.spec().score = DotScore{.scale = kNaN, .learned_scale = {}};
  EXPECT_EQ(field(), "spec.score.dot.scale");
}

}  // namespace
}  // namespace attn
