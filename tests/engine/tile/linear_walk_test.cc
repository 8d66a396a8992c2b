#include "engine/tile/linear_walk.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tile/target_test.h"

namespace attn {
namespace {

// Tensors of a walk of random numbers, and the walk that points to them.
struct Sequence {
  struct Extents {
    int64_t k_dim = 5;
    int64_t v_dim = 7;
    int64_t keys = 11;
    int64_t queries = 11;
    int64_t heads = 1;
  };

  Sequence(const Extents& extents, bool decays, bool corrects)
      : e(extents), has_decay(decays), has_beta(corrects) {
    std::normal_distribution<double> draw;
    std::mt19937 random(17);
    const auto fill = [&](std::vector<double>& to, int64_t count) {
      to.resize(static_cast<size_t>(count));
      for (double& x : to) x = draw(random);
    };
    fill(state, e.k_dim * e.v_dim);
    fill(sum, e.k_dim);
    fill(k, e.keys * e.k_dim);
    fill(v, e.keys * e.v_dim);
    fill(decay, e.keys * e.k_dim);
    fill(beta, e.keys);
    fill(q, e.heads * e.queries * e.k_dim);
    for (double& x : decay) x = std::exp(-std::abs(x));
    for (double& x : beta) x = 0.1 * std::abs(x);
    output.assign(static_cast<size_t>(e.heads * e.queries * e.v_dim), -9);
    divisors.assign(static_cast<size_t>(e.heads * e.queries), -9);
    scratch.resize(static_cast<size_t>(LinearWalkScratch(e.k_dim)));
  }

  LinearWalk Walk() {
    return {.k_dim = e.k_dim,
            .v_dim = e.v_dim,
            .state = state.data(),
            .sum = sum.data(),
            .keys = e.keys,
            .k = k.data(),
            .v = v.data(),
            .decay = has_decay ? decay.data() : nullptr,
            .beta = has_beta ? beta.data() : nullptr,
            .heads = e.heads,
            .queries = e.queries,
            .q = q.data(),
            .output = output.data(),
            .divisors = divisors.data(),
            .scratch = scratch.data()};
  }

  // The definition, token by token.
  void WalkPlainly() {
    for (int64_t t = 0; t < std::max(e.keys, e.queries); ++t) {
      if (t < e.keys) TakeKey(t);
      for (int64_t h = 0; t < e.queries && h < e.heads; ++h) AnswerQuery(h, t);
    }
  }

  static double& At(std::vector<double>& values, int64_t index) {
    return values[static_cast<size_t>(index)];
  }
  void TakeKey(int64_t t) {
    const double* phi = k.data() + t * e.k_dim;
    for (int64_t i = 0; i < e.k_dim; ++i) At(sum, i) += phi[i];
    for (int64_t c = 0; c < e.v_dim; ++c) {
      double known = 0;
      for (int64_t i = 0; i < e.k_dim; ++i) {
        double& s = At(state, i * e.v_dim + c);
        if (has_decay) s *= At(decay, t * e.k_dim + i);
        known += phi[i] * s;
      }
      double change = At(v, t * e.v_dim + c);
      if (has_beta) change = At(beta, t) * (change - known);
      for (int64_t i = 0; i < e.k_dim; ++i) {
        At(state, i * e.v_dim + c) += phi[i] * change;
      }
    }
  }
  void AnswerQuery(int64_t h, int64_t t) {
    const int64_t row = h * e.queries + t;
    const double* phi = q.data() + row * e.k_dim;
    At(divisors, row) = 0;
    for (int64_t i = 0; i < e.k_dim; ++i)
      At(divisors, row) += phi[i] * sum[static_cast<size_t>(i)];
    for (int64_t c = 0; c < e.v_dim; ++c) {
      double answer = 0;
      for (int64_t i = 0; i < e.k_dim; ++i) {
        answer += phi[i] * At(state, i * e.v_dim + c);
      }
      At(output, row * e.v_dim + c) = answer;
    }
  }

  Extents e;
  bool has_decay;
  bool has_beta;
  std::vector<double> state, sum, k, v, decay, beta, q, output, divisors,
      scratch;
};

class LinearWalkTest : public OnEveryTarget {};
ATTN_ON_EVERY_TARGET(LinearWalkTest);

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want,
                const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-11 * (1 + std::abs(want[i])))
        << what << " " << i;
  }
}

void ExpectPlainWalk(const Sequence::Extents& extents) {
  for (const bool decays : {false, true}) {
    for (const bool corrects : {false, true}) {
      Sequence got(extents, decays, corrects);
      Sequence want = got;
      WalkLinear(got.Walk());
      want.WalkPlainly();
      ExpectNear(got.output, want.output, "output");
      ExpectNear(got.state, want.state, "state");
      ExpectNear(got.sum, want.sum, "sum");
      ExpectNear(got.divisors, want.divisors, "divisor");
    }
  }
}

TEST_P(LinearWalkTest, EveryExtentIsTheDefinitionTokenByToken) {
  for (const int64_t k_dim : {1, 2, 5, 64}) {
    for (const int64_t v_dim : {1, 3, 8, 16, 17, 40, 64}) {
      ExpectPlainWalk({.k_dim = k_dim, .v_dim = v_dim});
    }
  }
}

TEST_P(LinearWalkTest, KeysAndQueriesMayEndAnywhere) {
  for (const int64_t keys : {0, 1, 3, 4, 9}) {
    for (const int64_t queries : {0, 1, 4, 5, 14}) {
      for (const int64_t heads : {0, 1, 2, 4, 5, 7}) {
        ExpectPlainWalk({.keys = keys, .queries = queries, .heads = heads});
      }
    }
  }
}

TEST_P(LinearWalkTest, BitsDoNotDependOnWhereTheSequenceIsCut) {
  for (const bool decays : {false, true}) {
    for (const bool corrects : {false, true}) {
      Sequence whole({.keys = 13, .queries = 13}, decays, corrects);
      Sequence parts = whole;
      WalkLinear(whole.Walk());
      for (const auto& [begin, count] :
           {std::pair<int64_t, int64_t>{0, 1}, {1, 6}, {7, 6}}) {
        LinearWalk walk = parts.Walk();
        walk.keys = walk.queries = count;
        walk.k += begin * walk.k_dim;
        walk.v += begin * walk.v_dim;
        if (decays) walk.decay += begin * walk.k_dim;
        if (corrects) walk.beta += begin;
        walk.q += begin * walk.k_dim;
        walk.output += begin * walk.v_dim;
        walk.divisors += begin;
        WalkLinear(walk);
      }
      ASSERT_EQ(parts.output, whole.output);
      ASSERT_EQ(parts.state, whole.state);
      ASSERT_EQ(parts.divisors, whole.divisors);
    }
  }
}

TEST_P(LinearWalkTest, AStateWithoutRowsAnswersZero) {
  Sequence empty({.k_dim = 0, .v_dim = 20}, false, false);
  WalkLinear(empty.Walk());
  for (const double x : empty.output) ASSERT_EQ(x, 0);
}

}  // namespace
}  // namespace attn
