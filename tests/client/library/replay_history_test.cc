#include "client/library/replay_history.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int64_t kHeads = 2;
constexpr int64_t kKeyDim = 3;
constexpr int64_t kValueDim = 1;

// Element d of head h of token t of layer l.
double KeyOf(int layer, int64_t token, int64_t head, int64_t d) {
  return static_cast<double>(((layer * 500 + token) * kHeads + head) * kKeyDim +
                             d);
}
double ValueOf(int layer, int64_t token, int64_t head) {
  return -static_cast<double>((layer * 500 + token) * kHeads + head);
}

// Appends the next n tokens, as [1, H, n, D] in memory or as [1, n, H, D].
void AppendTokens(ReplayHistory& history, int layer, int64_t n,
                  DType dtype = DType::kF32, bool bshd = false) {
  const int64_t first = history.length(layer);
  HostTensor k(dtype, bshd ? Shape{1, n, kHeads, kKeyDim}
                           : Shape{1, kHeads, n, kKeyDim});
  HostTensor v(dtype, bshd ? Shape{1, n, kHeads, kValueDim}
                           : Shape{1, kHeads, n, kValueDim});
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t t = 0; t < n; ++t) {
      const int64_t row = bshd ? t * kHeads + h : h * n + t;
      for (int64_t d = 0; d < kKeyDim; ++d) {
        k.Set(row * kKeyDim + d, KeyOf(layer, first + t, h, d));
      }
      v.Set(row, ValueOf(layer, first + t, h));
    }
  }
  StepTensors step;
  step.layer = layer;
  step.k = bshd ? k.view().SwapAxes(1, 2) : k.view();
  step.v = bshd ? v.view().SwapAxes(1, 2) : v.view();
  history.Append(step);
}

struct SeenPart {
  int64_t position = 0;
  int64_t tokens = 0;
  std::vector<int> layers;
};

// Takes the parts as a session would: each layer's tokens in order, and none
// twice. What it has then must be what was appended.
std::vector<SeenPart> Replayed(const ReplayHistory& history,
                               const ReplayLimits& limits) {
  std::vector<SeenPart> parts;
  std::vector<int64_t> lengths(static_cast<size_t>(history.layers()));
  const absl::Status status =
      history.ForEachPart(limits, [&](const ReplayPart& part) -> absl::Status {
        SeenPart seen{
            .position = part.position, .tokens = part.tokens, .layers = {}};
        EXPECT_LE(part.tokens, limits.max_tokens);
        for (const ReplayPart::Layer& layer : part.layers) {
          int64_t& length = lengths[static_cast<size_t>(layer.layer)];
          EXPECT_EQ(length, part.position);
          length += part.tokens;
          EXPECT_EQ(layer.k.shape(), (Shape{1, part.tokens, kHeads, kKeyDim}));
          EXPECT_EQ(layer.v.shape(),
                    (Shape{1, part.tokens, kHeads, kValueDim}));
          for (int64_t i = 0; i < layer.k.element_count(); ++i) {
            const int64_t row = i / kKeyDim;
            EXPECT_EQ(layer.k.At(i),
                      KeyOf(layer.layer, part.position + row / kHeads,
                            row % kHeads, i % kKeyDim));
          }
          for (int64_t i = 0; i < layer.v.element_count(); ++i) {
            EXPECT_EQ(
                layer.v.At(i),
                ValueOf(layer.layer, part.position + i / kHeads, i % kHeads));
          }
          seen.layers.push_back(layer.layer);
        }
        parts.push_back(seen);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok());
  for (int layer = 0; layer < history.layers(); ++layer) {
    EXPECT_EQ(lengths[static_cast<size_t>(layer)], history.length(layer));
  }
  return parts;
}

constexpr ReplayLimits kWide{.max_tokens = 1 << 20,
                             .max_bytes = int64_t{1} << 40};
// Of F32.
constexpr int64_t kRowBytes = kHeads * (kKeyDim + kValueDim) * 4;
constexpr int64_t kAll = int64_t{1} << 40;

TEST(ReplayHistory, StepsOfAnySizeAreOnePart) {
  ReplayHistory history(2, kAll);
  for (const int64_t n : {1, 70, 1, 200}) {
    AppendTokens(history, 0, n);
    AppendTokens(history, 1, n, DType::kF32, /*bshd=*/true);
  }
  EXPECT_EQ(history.bytes(), 2 * 272 * kRowBytes);
  const auto parts = Replayed(history, kWide);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_THAT(parts[0].layers, ElementsAre(0, 1));
}

TEST(ReplayHistory, LayersThatAreLongerGoOnAlone) {
  ReplayHistory history(3, kAll);
  AppendTokens(history, 0, 5);
  AppendTokens(history, 2, 3);
  const auto parts = Replayed(history, kWide);
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_THAT(parts[0].layers, ElementsAre(0, 2));
  EXPECT_EQ(parts[0].tokens, 3);
  EXPECT_THAT(parts[1].layers, ElementsAre(0));
}

TEST(ReplayHistory, PartsKeepToTheirLimits) {
  ReplayHistory history(3, kAll);
  for (int layer = 0; layer < 3; ++layer) AppendTokens(history, layer, 100);
  EXPECT_THAT(
      Replayed(history, {.max_tokens = 30, .max_bytes = int64_t{1} << 40}),
      SizeIs(4));
  // Ten tokens of one layer.
  EXPECT_THAT(
      Replayed(history, {.max_tokens = 1000, .max_bytes = 10 * kRowBytes}),
      SizeIs(30));
  // The same with as much again beside each row: five.
  EXPECT_THAT(Replayed(history, {.max_tokens = 1000,
                                 .max_bytes = 10 * kRowBytes,
                                 .more_row_bytes = kRowBytes}),
              SizeIs(60));
  // Two layers' whole.
  EXPECT_THAT(
      Replayed(history, {.max_tokens = 100, .max_bytes = 200 * kRowBytes}),
      SizeIs(2));
  // Less than a row is a row.
  EXPECT_THAT(Replayed(history, {.max_tokens = 1000, .max_bytes = 1}),
              SizeIs(300));
}

TEST(ReplayHistory, ASessionThatHasSomeIsGivenTheRest) {
  ReplayHistory history(2, kAll);
  AppendTokens(history, 0, 100);
  AppendTokens(history, 1, 70);
  const auto lengths = [&history](int64_t begin) {
    std::vector<int64_t> had = {std::min<int64_t>(begin, 100),
                                std::min<int64_t>(begin, 70)};
    ReplayLimits limits = {.max_tokens = 20, .max_bytes = kAll};
    limits.begin = begin;
    const absl::Status status =
        history.ForEachPart(limits, [&had](const ReplayPart& part) {
          for (const ReplayPart::Layer& layer : part.layers) {
            int64_t& length = had[static_cast<size_t>(layer.layer)];
            EXPECT_EQ(length, part.position);
            length += part.tokens;
            EXPECT_EQ(layer.k.At(0), KeyOf(layer.layer, part.position, 0, 0));
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok());
    return had;
  };
  for (const int64_t begin : {0, 30, 64, 75, 100}) {
    EXPECT_THAT(lengths(begin), ElementsAre(100, 70)) << begin;
  }
}

TEST(ReplayHistory, TokensOfAnotherTypeAreAnotherPart) {
  ReplayHistory history(1, kAll);
  AppendTokens(history, 0, 3);
  AppendTokens(history, 0, 2, DType::kF64);
  AppendTokens(history, 0, 2);
  const auto parts = Replayed(history, kWide);
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(parts[1].position, 3);
  EXPECT_EQ(history.bytes(), 5 * kRowBytes + 2 * 2 * kRowBytes);
}

TEST(ReplayHistory, WhatWasCutIsNotThere) {
  ReplayHistory history(2, kAll);
  AppendTokens(history, 0, 150);
  AppendTokens(history, 1, 20);
  history.Truncate(70);
  EXPECT_EQ(history.length(0), 70);
  EXPECT_EQ(history.length(1), 20);
  EXPECT_GE(history.bytes(), 90 * kRowBytes);
  // The page that was cut has room for what comes.
  const int64_t bytes = history.bytes();
  AppendTokens(history, 0, 3);
  EXPECT_EQ(history.bytes(), bytes);
  Replayed(history, kWide);
  history.Truncate(0);
  EXPECT_EQ(history.bytes(), 0);
  EXPECT_THAT(Replayed(history, kWide), SizeIs(0));
}

TEST(ReplayHistory, BeyondItsBoundItKeepsLengthsAlone) {
  ReplayHistory history(2, 10 * kRowBytes);
  AppendTokens(history, 0, 10);
  EXPECT_TRUE(history.complete());
  AppendTokens(history, 1, 1);
  EXPECT_FALSE(history.complete());
  EXPECT_EQ(history.bytes(), 0);
  AppendTokens(history, 1, 4);
  history.Truncate(4);
  EXPECT_EQ(history.length(0), 4);
  EXPECT_EQ(history.length(1), 4);
  EXPECT_FALSE(history.complete());
  // From the beginning it has all there is.
  history.Truncate(0);
  EXPECT_TRUE(history.complete());
  AppendTokens(history, 1, 2);
  EXPECT_THAT(Replayed(history, kWide), SizeIs(1));
}

TEST(ReplayHistory, TheFirstErrorEndsIt) {
  ReplayHistory history(1, kAll);
  AppendTokens(history, 0, 5);
  int taken = 0;
  const absl::Status status = history.ForEachPart(
      {.max_tokens = 1, .max_bytes = 1000}, [&taken](const ReplayPart&) {
        return ++taken == 3 ? absl::InternalError("no more") : absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_EQ(taken, 3);
}

// One number a token, and what a history of them must hold.
struct Tracked {
  ReplayHistory history;
  std::vector<float> truth;

  void Append(int64_t n, float& next) {
    HostTensor k(DType::kF32, {1, 1, n, 1});
    for (float& value : k.values<float>()) value = next++;
    const auto values = k.values<float>();
    truth.insert(truth.end(), values.begin(), values.end());
    StepTensors step;
    step.k = k.view();
    step.v = k.view();
    history.Append(step);
  }
  void Truncate(int64_t position) {
    history.Truncate(position);
    truth.resize(static_cast<size_t>(position));
  }
  std::vector<float> Replayed() const {
    std::vector<float> values;
    const absl::Status status =
        history.ForEachPart({.max_tokens = 50, .max_bytes = 1 << 20},
                            [&values](const ReplayPart& part) {
                              const auto k = part.layers[0].k.values<float>();
                              values.insert(values.end(), k.begin(), k.end());
                              return absl::OkStatus();
                            });
    EXPECT_TRUE(status.ok());
    return values;
  }
};

TEST(ReplayHistory, SharedOnesGoOnApart) {
  std::minstd_rand random(7);
  std::vector<Tracked> all;
  all.push_back({.history = ReplayHistory(1, kAll), .truth = {}});
  float next = 0;
  for (int i = 0; i < 400; ++i) {
    Tracked& one = all[random() % all.size()];
    switch (random() % 6) {
      case 0:
        if (all.size() < 8) {
          Tracked shared{.history = one.history.Share(), .truth = one.truth};
          all.push_back(std::move(shared));
        }
        break;
      case 1:
        one.Truncate(static_cast<int64_t>(random() % (one.truth.size() + 1)));
        break;
      default:
        one.Append(1 + static_cast<int64_t>(random() % 40), next);
        break;
    }
  }
  EXPECT_THAT(all, SizeIs(8));
  for (const Tracked& one : all) EXPECT_EQ(one.Replayed(), one.truth);
}

}  // namespace
}  // namespace attn
