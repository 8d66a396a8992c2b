// Normalizers against exact solutions, in double.
#include <cmath>
#include <vector>

#include "engine/normalizers/normalizer.h"
#include "gtest/gtest.h"
#include "tests/engine/stages/stage_call.h"

namespace attn {
namespace {

// A row of one query on which a normalizer runs. Thread-compatible.
class Row {
 public:
  Row(const NormalizerSpec& spec, std::vector<double> logits)
      : keys_(static_cast<int64_t>(logits.size())),
        call_(1, 1, 1, keys_),
        stage_(NormalizerTable()[spec.index()].make(spec, call_.problem())),
        logits_(std::move(logits)),
        weights_(logits_) {
    stage_->Normalize(call_.view(), TileOf(weights_), &statistics_);
  }

  const std::vector<double>& weights() const { return weights_; }
  std::vector<double> Backward(std::vector<double> gradient) {
    const NormalizedTile forward{.logits = TileOf(logits_),
                                 .weights = TileOf(weights_),
                                 .statistics = &statistics_};
    stage_->Backward(call_.view(), forward, TileOf(gradient), GradientSink({}));
    return gradient;
  }

 private:
  Tile<double> TileOf(std::vector<double>& row) const {
    return {{0, 0, 0, 1, 0, keys_}, row.data(), keys_};
  }

  int64_t keys_;
  StageCall call_;
  std::unique_ptr<Normalizer> stage_;
  std::vector<double> logits_;
  std::vector<double> weights_;
  RowStatistics statistics_;
};

// p^(alpha - 1) = (alpha - 1) x - tau: logits of which p is the solution.
std::vector<double> EntmaxLogits(const std::vector<double>& p, double alpha) {
  std::vector<double> logits;
  for (const double weight : p) {
    const long double slope = static_cast<long double>(alpha) - 1;
    const long double log = std::log(static_cast<long double>(weight));
    logits.push_back(static_cast<double>(std::expm1(slope * log) / slope));
  }
  return logits;
}

TEST(EntmaxRow, KeepsItsDigitsAsAlphaNearsOne) {
  std::vector<double> p;
  double sum = 0;
  for (int j = 0; j < 50; ++j) {
    p.push_back(std::exp(-0.3 * j));
    sum += p.back();
  }
  for (double& weight : p) weight /= sum;
  for (const double above :
       {1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.249, 0.25, 0.5, 1.0}) {
    const double alpha = 1 + above;
    EntmaxNormalizer spec;
    spec.alpha = alpha;
    const Row row(spec, EntmaxLogits(p, alpha));
    // Logits are rounded: what a weight moves is p^(2 - alpha) as much.
    for (size_t j = 0; j < p.size(); ++j) {
      EXPECT_NEAR(row.weights()[j], p[j],
                  1e-11 * p[j] + 1e-14 * std::pow(p[j], 2 - alpha))
          << alpha << " at " << j;
    }
  }
}

// The weights p and 1 - p belong to logits (p^(alpha - 1) - (1 - p)^(alpha -
// 1)) / (alpha - 1) apart. The smaller base is far below the larger one's last
// digit, and its weight is not.
TEST(EntmaxRow, SmallBasesOfALargeAlphaHaveTheirWeight) {
  for (const double alpha : {3.0, 10.0, 20.0, 50.0}) {
    for (const double p : {0.6, 0.9, 0.9774, 0.9997}) {
      const double slope = alpha - 1;
      const double gap = (std::pow(p, slope) - std::pow(1 - p, slope)) / slope;
      const Row row(EntmaxNormalizer{.alpha = alpha, .alphas = std::nullopt},
                    {-gap, 0, -12});
      EXPECT_NEAR(row.weights()[1], p, 1e-9) << alpha;
      EXPECT_NEAR(row.weights()[0], 1 - p, 1e-9) << alpha;
      EXPECT_EQ(row.weights()[2], 0) << alpha;
    }
  }
}

TEST(EntmaxRow, NearAlphaOneKeysFarBelowGetNothing) {
  EntmaxNormalizer spec;
  spec.alpha = 1.1;
  const Row row(spec, {0, -11, -1e300});
  EXPECT_EQ(row.weights(), (std::vector<double>{1, 0, 0}));
  spec.alpha = 1 + 1e-12;
  const Row alone(spec, {-3});
  EXPECT_EQ(alone.weights(), std::vector<double>{1});
}

TEST(SigmoidNormalizer, ItsSlopeKeepsItsDigitsForLargeLogits) {
  SigmoidNormalizer spec;
  spec.bias = 2;
  const std::vector<double> logits = {-60, -20, 0, 20, 38, 60};
  Row row(spec, logits);
  const std::vector<double> slopes =
      row.Backward(std::vector<double>(logits.size(), 1));
  for (size_t j = 0; j < logits.size(); ++j) {
    const double cosh = std::cosh((logits[j] + 2) / 2);
    const double want = 1 / (4 * cosh * cosh);
    EXPECT_NEAR(slopes[j], want, 1e-13 * want) << logits[j];
  }
}

}  // namespace
}  // namespace attn
