#include <cmath>
#include <random>
#include <vector>

#include "engine/core/field_error.h"
#include "engine/scores/score.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

std::unique_ptr<Score> MakeDot(const DotScore& dot, const Problem& problem) {
  return ScoreTable()[0].make(dot, problem);
}

// scale * sum of q[r, d] * k[j, d] for every row and key, in double.
template <typename T>
void ExpectProducts(int64_t dim, double scale, double tolerance) {
  StageCall call(1, 1, 3, 17);
  call.problem().shape.q_dim = dim;
  call.problem().shape.k_dim = dim;
  std::mt19937 random(3);
  std::normal_distribution<T> draw;
  std::vector<T> q(static_cast<size_t>(3 * dim));
  std::vector<T> k(static_cast<size_t>(17 * dim));
  for (T& x : q) x = draw(random);
  for (T& x : k) x = draw(random);
  OwnedTile<T> scores({0, 0, 0, 3, 0, 17}, T{99});
  MakeDot({.scale = scale, .learned_scale = {}}, call.problem())
      ->Compute(call.view(), q.data(), k.data(), scores.tile());
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t j = 0; j < 17; ++j) {
      double want = 0;
      for (int64_t d = 0; d < dim; ++d) {
        want += static_cast<double>(q[static_cast<size_t>(r * dim + d)]) *
                static_cast<double>(k[static_cast<size_t>(j * dim + d)]);
      }
      EXPECT_NEAR(scores.At(r, j), scale * want, tolerance);
    }
  }
}

TEST(DotScoreStage, ComputesScaledProductsInBothPrecisions) {
  for (const int64_t dim : {0, 1, 3, 33, 64}) {
    for (const double scale : {0.125, 0.0, -2.0}) {
      ExpectProducts<float>(dim, scale, 2e-5);
      ExpectProducts<double>(dim, scale, 1e-12);
    }
  }
}

TEST(DotScoreStage, TheDefaultScaleIsOneOverTheRootOfTheDimension) {
  StageCall call(1, 1, 2, 2);
  call.problem().shape.q_dim = 33;
  call.problem().shape.k_dim = 33;
  EXPECT_DOUBLE_EQ(MakeDot({}, call.problem())->scale(call.view(), 0),
                   1 / std::sqrt(33.0));
  EXPECT_EQ(MakeDot({.scale = 0.0, .learned_scale = {}}, call.problem())
                ->scale(call.view(), 0),
            0);
  EXPECT_TRUE(MakeDot({}, call.problem())->is_dot());
}

TEST(DotScoreStage, WithoutDimensionsTheScoresAreZeroNotNaN) {
  StageCall call(1, 1, 1, 2);
  call.problem().shape.q_dim = 0;
  call.problem().shape.k_dim = 0;
  OwnedTile<float> scores({0, 0, 0, 1, 0, 2}, 5.0F);
  const float none = 0;
  MakeDot({}, call.problem())
      ->Compute(call.view(), &none, &none, scores.tile());
  EXPECT_EQ(scores.At(0, 0), 0.0F);
  EXPECT_EQ(scores.At(0, 1), 0.0F);
}

TEST(DotScoreStage, ANonFiniteScaleIsRefusedByName) {
  StageCall call(1, 1, 1, 1);
  const auto validate = ScoreTable()[0].validate;
  for (const double scale : {kNaN, kInf, -kInf}) {
    const absl::Status status =
        validate(DotScore{.scale = scale, .learned_scale = {}}, call.problem(),
                 "spec.score");
    EXPECT_EQ(FieldOf(status), "spec.score.dot.scale");
  }
  for (const double scale : {0.0, -1.0, 1e300}) {
    EXPECT_TRUE(validate(DotScore{.scale = scale, .learned_scale = {}},
                         call.problem(), "spec.score")
                    .ok());
  }
}

// Scores that project take rows of two widths; these compare them as they are.
TEST(ScoreStages, RowsThatAreComparedElementByElementHaveOneWidth) {
  StageCall call(1, 1, 2, 3);
  call.problem().shape.k_dim = 5;
  const uint32_t weight =
      call.AddInput<float>(DType::kF32, {12}, std::vector<float>(12));
  for (const ScoreSpec& spec :
       {ScoreSpec(DotScore{}), ScoreSpec(CosineScore{}),
        ScoreSpec(DistanceScore{}), ScoreSpec(TrilinearScore{weight, 0})}) {
    const ScoreEntry& entry = ScoreTable()[spec.index()];
    EXPECT_EQ(FieldOf(entry.validate(spec, call.problem(), "spec.score")),
              "k.shape")
        << entry.name;
  }
}

}  // namespace
}  // namespace attn
