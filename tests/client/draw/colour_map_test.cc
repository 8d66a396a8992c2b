// The maps are what they are said to be: in numbers, for every reader.
#include "client/draw/colour_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr int kColours = 256;

using Matrix = std::array<std::array<double, 3>, 3>;

// Machado, Oliveira and Fernandes, "A Physiologically-based Model for
// Simulation of Color Vision Deficiency", 2009, severity 1.0, on linear RGB.
constexpr Matrix kProtanopia = {{{0.152286, 1.052583, -0.204868},
                                 {0.114503, 0.786281, 0.099216},
                                 {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranopia = {{{0.367322, 0.860646, -0.227968},
                                   {0.280085, 0.672501, 0.047413},
                                   {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kFullVision = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

double Linear(uint8_t channel) {
  const double x = channel / 255.0;
  return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
}

uint8_t Encoded(double x) {
  x = std::clamp(x, 0.0, 1.0);
  return static_cast<uint8_t>(std::lround(
      255 *
      (x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055)));
}

OkLab Seen(Rgb colour, const Matrix& vision) {
  const double linear[] = {Linear(colour.red), Linear(colour.green),
                           Linear(colour.blue)};
  std::array<uint8_t, 3> seen{};
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 3; ++j) sum += vision[i][j] * linear[j];
    seen[i] = Encoded(sum);
  }
  return ToOkLab({seen[0], seen[1], seen[2]});
}

std::vector<OkLab> SeenMap(const ColourMap& map, const Matrix& vision,
                           int colours) {
  std::vector<OkLab> seen;
  for (int i = 0; i < colours; ++i) {
    seen.push_back(
        Seen(map.At(static_cast<double>(i) / (colours - 1)), vision));
  }
  return seen;
}

double NearestOf(const std::vector<OkLab>& map, const OkLab& colour) {
  double nearest = 1;
  for (const OkLab& other : map) {
    nearest = std::min(nearest, ColourDistance(other, colour));
  }
  return nearest;
}

struct Vision {
  std::string name;
  Matrix matrix;
};

class ColourMapVision : public ::testing::TestWithParam<Vision> {};

TEST(ColourMapTest, TheSequentialMapGetsLighterAllTheWay) {
  const auto map = SeenMap(ColourMap::Sequential(), kFullVision, kColours);
  for (size_t i = 2; i < map.size(); ++i) {
    EXPECT_GT(map[i].lightness, map[i - 2].lightness) << i;
    // Half a unit of a channel's 255 may take a neighbour's step back.
    EXPECT_GT(map[i].lightness, map[i - 1].lightness - 0.001) << i;
  }
  EXPECT_GT(map.back().lightness - map.front().lightness, 0.6);
}

// Sixteen colours, so that the 8 bits of a channel do not matter.
TEST(ColourMapTest, EqualStepsOfTheSequentialMapLookEquallyFar) {
  const auto map = SeenMap(ColourMap::Sequential(), kFullVision, 16);
  double least = 1;
  double most = 0;
  for (size_t i = 1; i < map.size(); ++i) {
    const double step = ColourDistance(map[i - 1], map[i]);
    least = std::min(least, step);
    most = std::max(most, step);
  }
  EXPECT_LT(most / least, 1.15);
}

TEST(ColourMapTest, BothArmsOfTheDivergingMapAreEquallyLight) {
  const ColourMap& map = ColourMap::Diverging();
  for (int i = 0; i <= 100; ++i) {
    const double away = i / 200.0;
    EXPECT_NEAR(ToOkLab(map.At(0.5 - away)).lightness,
                ToOkLab(map.At(0.5 + away)).lightness, 0.006)
        << away;
  }
}

TEST(ColourMapTest, TheDivergingMapIsLightestAndColourlessInTheMiddle) {
  const auto map = SeenMap(ColourMap::Diverging(), kFullVision, 257);
  EXPECT_LT(std::hypot(map[128].a, map[128].b), 0.01);
  for (size_t i = 1; i <= 128; ++i) {
    EXPECT_GT(map[i].lightness, map[i - 1].lightness - 1e-9) << i;
    EXPECT_LT(map[128 + i].lightness, map[128 + i - 1].lightness + 1e-9) << i;
  }
}

// 0.02 can just be told apart; nine colours of a scale are far beyond it.
TEST_P(ColourMapVision, ColoursOfAMapAreToldApart) {
  for (const ColourMap* map :
       {&ColourMap::Sequential(), &ColourMap::Diverging()}) {
    const auto seen = SeenMap(*map, GetParam().matrix, 9);
    for (size_t i = 0; i < seen.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        EXPECT_GT(ColourDistance(seen[i], seen[j]), 0.04) << i << " and " << j;
      }
    }
  }
}

TEST_P(ColourMapVision, TheSequentialMapStillGetsLighter) {
  const auto seen = SeenMap(ColourMap::Sequential(), GetParam().matrix, 32);
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GT(seen[i].lightness, seen[i - 1].lightness) << i;
  }
}

TEST_P(ColourMapVision, WhatIsNotFiniteLooksLikeNoValue) {
  for (const ColourMap* map :
       {&ColourMap::Sequential(), &ColourMap::Diverging()}) {
    EXPECT_GT(NearestOf(SeenMap(*map, GetParam().matrix, kColours),
                        Seen(kNotFiniteColour, GetParam().matrix)),
              0.2);
  }
}

// The two greys alternate, which no value does.
TEST_P(ColourMapVision, TheStripesOfTheHatchAreToldApart) {
  EXPECT_GT(ColourDistance(Seen(kMaskedGround, GetParam().matrix),
                           Seen(kMaskedStripe, GetParam().matrix)),
            0.15);
}

TEST(ColourMapTest, TheHatchHasNoColourOfAMap) {
  for (const ColourMap* map :
       {&ColourMap::Sequential(), &ColourMap::Diverging()}) {
    const auto seen = SeenMap(*map, kFullVision, kColours);
    EXPECT_GT(NearestOf(seen, ToOkLab(kMaskedGround)), 0.04);
    EXPECT_GT(NearestOf(seen, ToOkLab(kMaskedStripe)), 0.04);
  }
}

TEST(ColourMapTest, PositionsAreClamped) {
  const ColourMap& map = ColourMap::Sequential();
  EXPECT_EQ(map.At(-7), map.At(0));
  EXPECT_EQ(map.At(7), map.At(1));
}

// Ottosson's table of known pairs.
TEST(OkLabTest, KnowsThePublishedColours) {
  const OkLab white = ToOkLab({255, 255, 255});
  EXPECT_NEAR(white.lightness, 1, 1e-4);
  EXPECT_NEAR(std::hypot(white.a, white.b), 0, 1e-4);
  const OkLab red = ToOkLab({255, 0, 0});
  EXPECT_NEAR(red.lightness, 0.628, 1e-3);
  EXPECT_NEAR(red.a, 0.225, 1e-3);
  EXPECT_NEAR(red.b, 0.126, 1e-3);
}

TEST(OkLabTest, EveryGreyAndCornerComesBack) {
  for (int i = 0; i < kColours; ++i) {
    const auto x = static_cast<uint8_t>(i);
    for (const Rgb colour :
         {Rgb{x, x, x}, Rgb{x, 0, 255}, Rgb{255, x, 0}, Rgb{0, 255, x}}) {
      EXPECT_EQ(ToRgb(ToOkLab(colour)), colour) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, ColourMapVision,
                         ::testing::Values(Vision{"Full", kFullVision},
                                           Vision{"Protanopia", kProtanopia},
                                           Vision{"Deuteranopia",
                                                  kDeuteranopia}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace attn
