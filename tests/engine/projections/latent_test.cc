// Multi-head latent attention against its composition in double (DeepSeek-AI
// 2024, section 2.1).
#include <cmath>
#include <cstddef>
#include <string>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"
#include "tests/engine/projections/projection_call.h"

namespace attn::testing {
namespace {

constexpr int64_t kHeads = 3;
constexpr int64_t kPlain = 6;
constexpr int64_t kTurning = 4;
constexpr int64_t kValue = 5;
constexpr int64_t kRank = 10;
constexpr int64_t kLatent = 8;
constexpr int64_t kIn = 16;

// Elements [from, from + kTurning) of each [.., width] row turn by the row's
// position: pairs (2i, 2i + 1) or (i, i + half).
void Turn(Numbers& x, int64_t from, int64_t offset, bool interleaved) {
  const int64_t width = x.shape[3];
  const int64_t half = kTurning / 2;
  for (int64_t row = 0; row < x.shape[0] * x.shape[1] * x.shape[2]; ++row) {
    const auto position = static_cast<double>(row % x.shape[2] + offset);
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          position *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / kTurning);
      const int64_t at = row * width + from;
      double& a = x.values[static_cast<size_t>(at + (interleaved ? 2 * i : i))];
      double& b = x.values[static_cast<size_t>(
          at + (interleaved ? 2 * i + 1 : i + half))];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }
}

// [B, H, S, a] and [B, H, S, b] side by side.
Numbers Beside(const Numbers& a, const Numbers& b) {
  Numbers result{{a.shape[0], a.shape[1], a.shape[2], a.shape[3] + b.shape[3]},
                 {}};
  const auto wa = static_cast<size_t>(a.shape[3]);
  const auto wb = static_cast<size_t>(b.shape[3]);
  for (size_t row = 0; row < a.values.size() / wa; ++row) {
    for (size_t i = 0; i < wa; ++i) {
      result.values.push_back(a.values[row * wa + i]);
    }
    for (size_t i = 0; i < wb; ++i) {
      result.values.push_back(b.values[row * wb + i]);
    }
  }
  return result;
}

// Elements of the last axis of [B, H, S, D].
Numbers Part(const Numbers& x, int64_t from, int64_t width) {
  Numbers flat{{x.shape[0] * x.shape[1], x.shape[2], x.shape[3]}, x.values};
  Numbers part = Columns(flat, from, width);
  part.shape = {x.shape[0], x.shape[1], x.shape[2], width};
  return part;
}

struct Module {
  int64_t queries = 5;
  int64_t keys = 9;
  int64_t query_offset = 4;
  bool interleaved = true;
  bool compressed_query = true;
  Numbers xq = SomeNumbers({2, 5, kIn}, 1);
  Numbers xk = SomeNumbers({2, 9, kIn}, 2);
  Numbers q_down = SomeNumbers({kRank, kIn}, 3);
  Numbers q_gain = SomeNumbers({kRank}, 4);
  Numbers q_up = SomeNumbers({kHeads * (kPlain + kTurning), kRank}, 5);
  Numbers q_direct = SomeNumbers({kHeads * (kPlain + kTurning), kIn}, 6);
  Numbers kv_down = SomeNumbers({kLatent + kTurning, kIn}, 7);
  Numbers kv_bias = SomeNumbers({kLatent + kTurning}, 8);
  Numbers kv_gain = SomeNumbers({kLatent}, 9);
  Numbers kv_up = SomeNumbers({kHeads * (kPlain + kValue), kLatent}, 10);
  Numbers out = SomeNumbers({kIn, kHeads* kValue}, 11);
  static constexpr double kEps = 1e-5;

  Numbers Expected() const {
    Numbers rows = Through(xq, q_direct, nullptr);
    if (compressed_query) {
      rows = Through(RmsNormed(Through(xq, q_down, nullptr), q_gain, kEps),
                     q_up, nullptr);
    }
    Numbers q = ByHead(rows, kHeads);
    Turn(q, kPlain, query_offset, interleaved);
    const Numbers down = Through(xk, kv_down, &kv_bias);
    Numbers shared = ByHead(Columns(down, kLatent, kTurning), 1);
    Turn(shared, 0, 0, interleaved);
    const Numbers kv =
        ByHead(Through(RmsNormed(Columns(down, 0, kLatent), kv_gain, kEps),
                       kv_up, nullptr),
               kHeads);
    Numbers copies{{2, kHeads, keys, kTurning}, {}};
    for (size_t b = 0; b < 2; ++b) {
      const auto plane = static_cast<std::ptrdiff_t>(keys * kTurning);
      const auto from =
          shared.values.begin() + static_cast<std::ptrdiff_t>(b) * plane;
      for (int64_t h = 0; h < kHeads; ++h) {
        copies.values.insert(copies.values.end(), from, from + plane);
      }
    }
    return Through(Joined(Attended(q, Beside(Part(kv, 0, kPlain), copies),
                                   Part(kv, kPlain, kValue), true)),
                   out, nullptr);
  }

  void Fill(ProjectionCall& call) const {
    call.args().q = call.Store(xq);
    call.args().k = call.Store(xk);
    ProjectionSpec& spec = call.projections();
    spec.q_heads = kHeads;
    spec.output = call.AddLayer(out, nullptr);
    LatentProjection& latent = spec.latent.emplace();
    if (compressed_query) {
      latent.query_down = call.AddLayer(q_down, nullptr);
      latent.query_norm = call.AddInput(q_gain);
      latent.query_up = call.AddLayer(q_up, nullptr);
    } else {
      latent.query_up = call.AddLayer(q_direct, nullptr);
    }
    latent.kv_down = call.AddLayer(kv_down, &kv_bias);
    latent.kv_norm = call.AddInput(kv_gain);
    latent.kv_up = call.AddLayer(kv_up, nullptr);
    latent.plain_dim = kPlain;
    latent.rotary.layout =
        interleaved ? RotaryLayout::kInterleaved : RotaryLayout::kHalfSplit;
    latent.rotary.rotary_dim = kTurning;
    latent.rotary.query_offset = query_offset;
    latent.eps = kEps;
    call.spec().masks = {CausalMask{Alignment::kBottomRight}};
  }
};

TEST(LatentTest, IsItsCompositionInEveryPrecision) {
  for (const bool interleaved : {false, true}) {
    for (const bool compressed : {false, true}) {
      Module module;
      module.interleaved = interleaved;
      module.compressed_query = compressed;
      ProjectionCall exact(DType::kF64);
      module.Fill(exact);
      EXPECT_LT(Distance(exact.Run(), module.Expected()), 1e-11);
      ProjectionCall single(DType::kF32);
      module.Fill(single);
      EXPECT_LT(Distance(single.Run(), module.Expected()), 1e-4);
    }
  }
}

TEST(LatentTest, BitsDoNotDependOnWorkers) {
  const Module module;
  ProjectionCall call(DType::kF32);
  module.Fill(call);
  EXPECT_EQ(call.Output(1), call.Output(3));
}

TEST(LatentTest, ATokenByTokenIsAsThePrefill) {
  Module module;
  module.xq = module.xk;
  module.query_offset = 0;
  module.queries = 9;
  ProjectionCall prefill(DType::kF64);
  module.Fill(prefill);
  const Numbers whole = prefill.Run();
  Module last = module;
  last.xq = {{2, 1, kIn}, {}};
  for (const size_t b : {size_t{0}, size_t{1}}) {
    for (size_t i = 0; i < kIn; ++i) {
      last.xq.values.push_back(module.xq.values[(b * 9 + 8) * kIn + i]);
    }
  }
  last.query_offset = 8;
  ProjectionCall step(DType::kF64);
  last.Fill(step);
  const Numbers one = step.Run();
  for (const size_t b : {size_t{0}, size_t{1}}) {
    for (size_t i = 0; i < kIn; ++i) {
      EXPECT_NEAR(one.values[b * kIn + i], whole.values[(b * 9 + 8) * kIn + i],
                  1e-12);
    }
  }
}

std::string RefusedField(const ProjectionCall& call) {
  Engine engine({.workers = 1});
  return FieldOf(call.MakePlan(engine).status()).value_or("none");
}

TEST(LatentTest, WhatDoesNotFitIsNamed) {
  const auto changed = [](auto change) {
    ProjectionCall call(DType::kF32);
    Module().Fill(call);
    change(call, *call.projections().latent);
    return RefusedField(call);
  };
  using Call = ProjectionCall;
  using Latent = LatentProjection;
  const std::string field = "spec.projections.latent";
  EXPECT_EQ(changed([](Call& c, Latent&) {
              c.args().v = c.Store(SomeNumbers({2, 3, 9, 5}, 1));
            }),
            "v.shape");
  EXPECT_EQ(changed([](Call&, Latent& l) { l.plain_dim = 5; }),
            field + ".query_up.weight.input");
  EXPECT_EQ(changed([](Call&, Latent& l) { l.rotary.rotary_dim.reset(); }),
            field + ".rotary.rotary_dim");
  EXPECT_EQ(changed([](Call&, Latent& l) { l.rotary.cos = 0; }),
            field + ".rotary");
  EXPECT_EQ(changed([](Call&, Latent& l) { l.kv_up = l.query_up; }),
            field + ".kv_up.weight.input");
  EXPECT_EQ(changed([](Call&, Latent& l) { l.kv_norm = l.query_norm; }),
            field + ".kv_norm.input");
  EXPECT_EQ(changed([](Call&, Latent& l) { l.query_down.reset(); }),
            field + ".query_norm");
  EXPECT_EQ(changed([](Call& c, Latent&) { c.projections().kv_heads = 1; }),
            "spec.projections.kv_heads");
}

}  // namespace
}  // namespace attn::testing
