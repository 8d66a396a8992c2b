#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/programs/program_call.h"

namespace attn {
namespace {

// An element as a formula sees it.
struct Env {
  double score, b, h, q, k, p;
};

constexpr double kSq = 3;
constexpr double kSk = 150;  // more than a chunk

struct Formula {
  const char* source;
  std::function<double(const Env&)> value;
};

double Floored(double a, double b) { return a - b * std::floor(a / b); }

const std::vector<Formula>& ScoreFormulas() {
  static const std::vector<Formula> kFormulas = {
      {"score", [](const Env& e) { return e.score; }},
      {"1 + 2 * 3", [](const Env&) { return 7; }},
      {"(1 + 2) * 3", [](const Env&) { return 9; }},
      {"10 - 4 - 3", [](const Env&) { return 3; }},
      {"16 / 4 / 2", [](const Env&) { return 2; }},
      {"7 % 4 * 2", [](const Env&) { return 6; }},
      {"2 * 7 % 4", [](const Env&) { return 2; }},
      {"-2 * -3", [](const Env&) { return 6; }},
      {"- - 2 - -1", [](const Env&) { return 3; }},
      {"-score * score", [](const Env& e) { return -(e.score * e.score); }},
      {"-pow(score, 2)", [](const Env& e) { return -(e.score * e.score); }},
      {"1e2 + .5 + 2.5E-1 + 3.", [](const Env&) { return 103.75; }},
      {"1 < 2 == 3 > 2 ? 5 : 6", [](const Env&) { return 5; }},
      {"true || false && false ? 1 : 0", [](const Env&) { return 1; }},
      {"!true || true ? 1 : 0", [](const Env&) { return 1; }},
      {"!(true || true) ? 1 : 0", [](const Env&) { return 0; }},
      {"1 + 1 < 3 && 4 >= 2 * 2 ? 1 : 0", [](const Env&) { return 1; }},
      {"false ? 1 : false ? 2 : 3", [](const Env&) { return 3; }},
      {"true ? false ? 1 : 2 : 3", [](const Env&) { return 2; }},
      {"k < 2 ? 10 : k < 4 ? 20 : 30",
       [](const Env& e) { return e.k < 2   ? 10
                                 : e.k < 4 ? 20
                                           : 30; }},
      {"b + 10 * h + 100 * q + 1000 * k",
       [](const Env& e) { return e.b + 10 * e.h + 100 * e.q + 1000 * e.k; }},
      {"p", [](const Env& e) { return e.q + kSk - kSq; }},
      {"B + 10 * H + 100 * Sq + 1000 * Sk",
       [](const Env&) { return 2 + 10 * 2 + 100 * kSq + 1000 * kSk; }},
      {"score + k % 4", [](const Env& e) { return e.score + Floored(e.k, 4); }},
      {"(q - k) % 5", [](const Env& e) { return Floored(e.q - e.k, 5); }},
      {"(q - k) % -5", [](const Env& e) { return Floored(e.q - e.k, -5); }},
      {"score % 1.5", [](const Env& e) { return Floored(e.score, 1.5); }},
      {"abs(q - k)", [](const Env& e) { return std::abs(e.q - e.k); }},
      {"exp(score)", [](const Env& e) { return std::exp(e.score); }},
      {"log(abs(score) + 1)",
       [](const Env& e) { return std::log(std::abs(e.score) + 1); }},
      {"tanh(score)", [](const Env& e) { return std::tanh(e.score); }},
      {"sqrt(k)", [](const Env& e) { return std::sqrt(e.k); }},
      {"pow(2, score)", [](const Env& e) { return std::exp2(e.score); }},
      {"floor(score)", [](const Env& e) { return std::floor(e.score); }},
      {"sin(score) + cos(k)",
       [](const Env& e) { return std::sin(e.score) + std::cos(e.k); }},
      {"sigmoid(score)",
       [](const Env& e) { return 1 / (1 + std::exp(-e.score)); }},
      {"sigmoid(-1000) + sigmoid(1000)", [](const Env&) { return 1; }},
      {"min(score, k) + max(score, q)",
       [](const Env& e) {
         return std::min(e.score, e.k) + std::max(e.score, e.q);
       }},
      {"clamp(score, -1, 1)",
       [](const Env& e) { return std::clamp(e.score, -1.0, 1.0); }},
      {"k > q ? -inf : score",
       [](const Env& e) { return e.k > e.q ? -kInf : e.score; }},
      {"q == 0 ? 1 / 0 : 0 / 0",
       [](const Env& e) { return e.q == 0 ? kInf : kNaN; }},
      {"k == 3 ? log(-1) : 2",
       [](const Env& e) { return e.k == 3 ? kNaN : 2; }},
      {"min(0 / 0, 1) == 1 || max(1, 0 / 0) == 1 ? 1 : 2",
       [](const Env&) { return 2; }},
      {"0 / 0 != 0 / 0 ? 1 : 2", [](const Env&) { return 1; }},
      {"score == score != (k == q) ? 1 : 0",
       [](const Env& e) { return e.k == e.q ? 0 : 1; }},
      {"(score > 0) == (k > 20) ? 1 : 0",
       [](const Env& e) { return (e.score > 0) == (e.k > 20) ? 1 : 0; }},
      {"5 % 0 == 5 % 0 ? 1 : 0", [](const Env&) { return 0; }},
      // No float holds 2^24 + 1.
      {"16777217 + k - 16777216", [](const Env& e) { return e.k + 1; }},
  };
  return kFormulas;
}

template <typename T>
void ExpectFormulasHold(double tolerance) {
  const ProgramCall call(2, 2, static_cast<int64_t>(kSq),
                         static_cast<int64_t>(kSk));
  for (const Formula& formula : ScoreFormulas()) {
    const std::vector<double> got =
        RunOnScores<T>(call, ProgramKind::kScore, formula.source);
    size_t i = 0;
    ForEachElement(call.shape(), [&](const At& at) {
      const auto q = static_cast<double>(at.q);
      const Env env = {
          ScoreAt(at), static_cast<double>(at.b), static_cast<double>(at.h),
          q,           static_cast<double>(at.k), q + kSk - kSq};
      const double want = formula.value(env);
      EXPECT_TRUE(Near(got[i], want, tolerance))
          << formula.source << " at k = " << at.k << ": " << got[i] << " for "
          << want;
      ++i;
    });
  }
}

TEST(EvaluationTest, FormulasHoldInDouble) {
  ExpectFormulasHold<double>(1e-14);
}

TEST(EvaluationTest, FormulasHoldInFloat) { ExpectFormulasHold<float>(1e-6); }

TEST(EvaluationTest, MaskAllowsWhereTheProgramIsTrue) {
  const ProgramCall call(1, 2, 4, 140);
  const std::vector<double> got = RunOnScores<float>(
      call, ProgramKind::kMask, "k <= p && (k % 3 == h || k >= 130)");
  size_t i = 0;
  ForEachElement(call.shape(), [&](const At& at) {
    const bool want = at.k <= at.q + 136 && (at.k % 3 == at.h || at.k >= 130);
    EXPECT_EQ(got[i++], want ? 1 : 0) << at.q << " " << at.k;
  });
}

TEST(EvaluationTest, MaskHidesNaN) {
  const ProgramCall call(1, 1, 1, 3);
  Elements<float> tile(call.Head(0, 0), static_cast<float>(kNaN));
  const auto program = call.Compile(ProgramKind::kMask, "k == 1");
  ASSERT_TRUE(program.ok());
  (*program)->Exclude(call.view(), tile.tile());
  EXPECT_EQ(tile(0, 0), -kInf);
  EXPECT_TRUE(std::isnan(tile(0, 1)));
  EXPECT_EQ(tile(0, 2), -kInf);
}

TEST(EvaluationTest, ExcludedLogitsStayExcluded) {
  const ProgramCall call(1, 1, 1, 3);
  Elements<double> scores(call.Head(0, 0), 2);
  scores(0, 1) = -kInf;
  const auto program = call.Compile(ProgramKind::kScore, "exp(score) + 1");
  ASSERT_TRUE(program.ok());
  (*program)->Run(call.view(), scores.tile(), scores.tile());
  EXPECT_NEAR(scores(0, 0), std::exp(2) + 1, 1e-14);
  EXPECT_EQ(scores(0, 1), -kInf);
  EXPECT_NEAR(scores(0, 2), std::exp(2) + 1, 1e-14);
}

TEST(EvaluationTest, WeightsOfExcludedKeysStayZeroAndVisibleOnesDoNot) {
  const ProgramCall call(1, 1, 1, 3);
  Elements<float> weights(call.Head(0, 0), 0);
  Elements<float> logits(call.Head(0, 0), -400);
  weights(0, 0) = 1;
  logits(0, 0) = 3;
  logits(0, 2) = static_cast<float>(-kInf);
  const auto program = call.Compile(ProgramKind::kWeight, "weight * .5 + .25");
  ASSERT_TRUE(program.ok());
  (*program)->Run(call.view(), weights.tile(), logits.tile());
  EXPECT_EQ(weights(0, 0), 0.75F);
  EXPECT_EQ(weights(0, 1), 0.25F);
  EXPECT_EQ(weights(0, 2), 0);
}

// A tile's numbers depend on their places in the call, not in the tile.
TEST(EvaluationTest, AnyTilingGivesTheSameBits) {
  const ProgramCall call(1, 2, 5, 300);
  const auto program = call.Compile(
      ProgramKind::kScore, "tanh(score) * sin(k) + exp(-abs(p - k)) % .3 + h");
  ASSERT_TRUE(program.ok());
  Elements<float> whole(call.Head(0, 1), 0.625F);
  (*program)->Run(call.view(), whole.tile(), whole.tile());
  for (const int64_t keys : {1, 7, 16, 127, 129}) {
    for (int64_t begin = 0; begin < 300; begin += keys) {
      const TileBounds bounds = {
          0, 1, 2, 3, begin, std::min<int64_t>(keys, 300 - begin)};
      Elements<float> part(bounds, 0.625F);
      (*program)->Run(call.view(), part.tile(), part.tile());
      for (int64_t r = 0; r < bounds.rows; ++r) {
        for (int64_t j = 0; j < bounds.keys; ++j) {
          ASSERT_EQ(part(r, j), whole(r + 2, begin + j));
        }
      }
    }
  }
}

}  // namespace
}  // namespace attn
