#include "engine/tile/feature_rows.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class FeatureRowsTest : public OnEveryTarget {};
ATTN_ON_EVERY_TARGET(FeatureRowsTest);

double Feature(FeatureMap map, double x) {
  switch (map) {
    case FeatureMap::kIdentity:
      return x;
    case FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case FeatureMap::kRelu:
      return x > 0 ? x : 0;
    case FeatureMap::kExp:
      return std::exp(x);
  }
  return x;
}

constexpr FeatureMap kMaps[] = {FeatureMap::kIdentity, FeatureMap::kEluPlusOne,
                                FeatureMap::kRelu, FeatureMap::kExp};

TEST_P(FeatureRowsTest, EveryLengthIsThatOfEachElement) {
  for (const FeatureMap map : kMaps) {
    for (size_t count = 0; count < 40; ++count) {
      std::vector<double> row(count + 1, 3);
      for (size_t i = 0; i < count; ++i) {
        row[i] = (static_cast<double>(i) - 17.3) * 1.7;
      }
      std::vector<double> got = row;
      FeatureRow(map, got.data(), static_cast<int64_t>(count));
      for (size_t i = 0; i < count; ++i) {
        const double want = Feature(map, row[i]);
        ASSERT_NEAR(got[i], want, 5e-16 * std::abs(want)) << row[i];
      }
      ASSERT_EQ(got[count], 3);
    }
  }
}

TEST_P(FeatureRowsTest, TheEdgesAreThoseOfTheFormulas) {
  const std::vector<double> edges = {kInf, -kInf, 0,      -0.0,   709.7,  710,
                                     1e9,  -1e9,  -744.9, 1e-300, -1e-300};
  for (const FeatureMap map : kMaps) {
    for (const double edge : edges) {
      std::vector<double> row(9, edge);
      FeatureRow(map, row.data(), 9);
      const double want = Feature(map, edge);
      for (const double x : row) {
        if (std::isinf(want)) {
          ASSERT_EQ(x, want) << edge;
        } else {
          // The last of the numbers below the smallest normal one.
          ASSERT_NEAR(x, want, 5e-16 * std::abs(want) + 1e-323) << edge;
        }
      }
    }
  }
}

TEST_P(FeatureRowsTest, NaNIsNaNButForRelu) {
  for (const FeatureMap map : kMaps) {
    std::vector<double> row(11, std::nan(""));
    FeatureRow(map, row.data(), 11);
    for (const double x : row) {
      ASSERT_EQ(std::isnan(x), map != FeatureMap::kRelu);
    }
  }
}

}  // namespace
}  // namespace attn
