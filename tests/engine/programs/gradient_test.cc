// Backward() against central differences of Run().
#include <cmath>
#include <string>
#include <vector>

#include "engine/core/gradient_sink.h"
#include "gmock/gmock.h"
#include "tests/engine/programs/program_call.h"

namespace attn {
namespace {

constexpr int64_t kQueries = 3;
constexpr int64_t kKeys = 19;
constexpr double kStep = 1e-6;

// What an element's result counts in the sum whose gradient is taken.
double CotangentAt(const At& at) {
  return std::cos(static_cast<double>(at.q * 3 + at.k));
}

// A call of one head, [1, 2, kQueries, kKeys], with a vector and a matrix.
class GradientTest : public ::testing::Test {
 protected:
  static constexpr int64_t kHead = 1;

  GradientTest() : call_(1, 2, kQueries, kKeys) {
    call_.AddTable<double>("vec", DType::kF64, {4}, {0.5, -1.25, 2, 0.75});
    std::vector<double> matrix;
    for (int i = 0; i < 12; ++i) matrix.push_back(0.3 * i - 1.7);
    call_.AddTable<double>("mat", DType::kF64, {3, 4}, matrix);
  }

  static constexpr int64_t kTableSizes[] = {4, 12};

  std::vector<double> Scores() const {
    std::vector<double> scores;
    for (int64_t q = 0; q < kQueries; ++q) {
      for (int64_t k = 0; k < kKeys; ++k) {
        // Off the corners of abs, min and floor.
        scores.push_back(ScoreAt({0, kHead, q, k}) + 0.11);
      }
    }
    return scores;
  }

  // The sum of results times cotangents.
  double Sum(const Program& program, const std::vector<double>& scores) const {
    Elements<double> tile(call_.Head(0, kHead));
    Fill(tile, scores);
    program.Run(call_.view(), tile.tile(), tile.tile());
    double sum = 0;
    for (int64_t q = 0; q < kQueries; ++q) {
      for (int64_t k = 0; k < kKeys; ++k) {
        const double cotangent = CotangentAt({0, kHead, q, k});
        if (tile(q, k) != -kInf) sum += tile(q, k) * cotangent;
      }
    }
    return sum;
  }

  static void Fill(Elements<double>& tile, const std::vector<double>& values) {
    for (int64_t q = 0; q < kQueries; ++q) {
      for (int64_t k = 0; k < kKeys; ++k) {
        tile(q, k) = values[static_cast<size_t>(q * kKeys + k)];
      }
    }
  }

  // How the sum changes with `variable`, which `sum` reads.
  template <typename Sum>
  static double Slope(double& variable, const Sum& sum) {
    const double kept = variable;
    variable = kept + kStep;
    const double above = sum();
    variable = kept - kStep;
    const double below = sum();
    variable = kept;
    return (above - below) / (2 * kStep);
  }

  void ExpectGradient(const std::string& source) {
    const auto compiled = call_.Compile(ProgramKind::kScore, source);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const Program& program = **compiled;
    std::vector<double> scores = Scores();
    scores[5] = -kInf;
    Elements<double> values(call_.Head(0, kHead));
    Fill(values, scores);
    Elements<double> gradient(call_.Head(0, kHead));
    for (int64_t q = 0; q < kQueries; ++q) {
      for (int64_t k = 0; k < kKeys; ++k) {
        gradient(q, k) = CotangentAt({0, kHead, q, k});
      }
    }
    std::vector<double> vec(4, 0.0);
    std::vector<double> mat(12, 0.0);
    program.Backward(call_.view(), values.tile(), values.tile(),
                     gradient.tile(), GradientSink({vec.data(), mat.data()}));
    const auto sum = [&] { return Sum(program, scores); };
    for (size_t i = 0; i < scores.size(); ++i) {
      const double want = i == 5 ? 0 : Slope(scores[i], sum);
      const auto at = static_cast<int64_t>(i);
      EXPECT_TRUE(Near(gradient(at / kKeys, at % kKeys), want, 1e-5))
          << source << " at " << i << ": " << gradient(at / kKeys, at % kKeys)
          << " for " << want;
    }
    ExpectTable(source, 0, vec, sum);
    ExpectTable(source, 1, mat, sum);
  }

  template <typename Sum>
  void ExpectTable(const std::string& source, size_t table,
                   const std::vector<double>& got, const Sum& sum) {
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = Slope(call_.Elements(table)[i], sum);
      EXPECT_TRUE(Near(got[i], want, 2e-5))
          << source << ", table " << table << " at " << i << ": " << got[i]
          << " for " << want;
    }
  }

  ProgramCall call_;
};

TEST_F(GradientTest, EveryOperationHasItsSlope) {
  for (const char* source :
       {"score",
        "3",
        "-score",
        "2 * score + score * score",
        "score / (k + 1)",
        "(k + 1) / (score + 7.3)",
        "abs(score)",
        "exp(score)",
        "log(abs(score))",
        "tanh(score)",
        "sqrt(abs(score))",
        "floor(score)",
        "sin(score) * cos(score)",
        "sigmoid(3 * score)",
        "score % 3.05",
        "7.7 % (abs(score) + .5)",
        "min(score, 1)",
        "max(score, -score)",
        "clamp(score, -1, 1.5)",
        "pow(abs(score), 1.7)",
        "pow(1.3, score)",
        "pow(abs(score), score)",
        "score > 0 ? score * 3 : -score",
        "score > 0 && k > 3 ? exp(score) : k == 2 ? score : 0"}) {
    ExpectGradient(source);
  }
}

TEST_F(GradientTest, SlopesOfSigmoidAndTanhKeepTheirDigitsFarOut) {
  for (const double x : {-40.0, -19.0, 19.0, 40.0}) {
    for (const double stretch : {1.0, 2.0}) {
      const auto program = call_.Compile(
          ProgramKind::kScore, stretch == 1 ? "sigmoid(score)" : "tanh(score)");
      ASSERT_TRUE(program.ok());
      Elements<double> values(call_.Head(0, kHead), x);
      Elements<double> gradient(call_.Head(0, kHead), 1);
      (*program)->Backward(call_.view(), values.tile(), values.tile(),
                           gradient.tile(), GradientSink({nullptr, nullptr}));
      // sigmoid' = 1 / (2 cosh(x / 2))^2, tanh' = 1 / cosh(x)^2.
      const double root = std::cosh(stretch * x / 2) * (stretch == 1 ? 2 : 1);
      const double want = 1 / (root * root);
      EXPECT_NEAR(gradient(0, 0), want, 1e-13 * want) << x;
    }
  }
}

TEST_F(GradientTest, TablesHaveTheirs) {
  for (const char* source :
       {"score + vec[h]", "vec[h] * (k - q)", "score * vec[k % 4] + vec[2]",
        "mat[q, k % 4] * score", "tanh(mat[q, 1] * vec[0]) * score",
        "vec[h] * vec[h] + mat[k % 3, q]", "vec[1 + score / 10]",
        "k < 4 ? vec[k] : score", "pow(abs(vec[h]), 2.5) * score"}) {
    ExpectGradient(source);
  }
}

TEST_F(GradientTest, CompositionsFollowTheChainRule) {
  ExpectGradient("30 * tanh((score - vec[h] * abs(p - k)) / 30)");
  ExpectGradient(
      "sigmoid(mat[q, 2] * tanh(score) + vec[k % 4]) / (1 + exp(-score / 4)) "
      "- min(score, vec[3]) * sin(score * vec[2])");
}

// The slope of the branch that was not taken may be anything.
TEST_F(GradientTest, BranchNotTakenCannotReachTheGradient) {
  ExpectGradient("score > 100 ? sqrt(score - score) : score");
  ExpectGradient("k < 4 ? vec[k] : k < 4 ? 0 : vec[k % 4] * score");
}

TEST_F(GradientTest, UnwantedTableIsLeftAlone) {
  const auto program = call_.Compile(ProgramKind::kScore, "score * vec[h]");
  ASSERT_TRUE(program.ok());
  Elements<double> values(call_.Head(0, kHead), 1);
  Elements<double> gradient(call_.Head(0, kHead), 2);
  (*program)->Backward(call_.view(), values.tile(), values.tile(),
                       gradient.tile(), GradientSink({nullptr, nullptr}));
  EXPECT_EQ(gradient(2, 18), 2 * -1.25);
}

TEST_F(GradientTest, WeightsOfExcludedKeysGetNoGradient) {
  const auto program = call_.Compile(ProgramKind::kWeight, "weight * vec[h]");
  ASSERT_TRUE(program.ok());
  Elements<double> values(call_.Head(0, kHead), 0);
  Elements<double> logits(call_.Head(0, kHead), 0);
  logits(1, 4) = -kInf;
  Elements<double> gradient(call_.Head(0, kHead), 2);
  std::vector<double> vec(4, 0.0);
  (*program)->Backward(call_.view(), values.tile(), logits.tile(),
                       gradient.tile(), GradientSink({vec.data(), nullptr}));
  EXPECT_EQ(gradient(1, 4), 0);
  EXPECT_EQ(gradient(1, 5), 2 * -1.25);
}

}  // namespace
}  // namespace attn
