// Random programs against an evaluator that shares nothing with the engine: it
// is built along with the text, as a tree of closures.
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/engine/programs/program_call.h"

namespace attn {
namespace {

struct Env {
  At at;
  double score = 0;
};

// How tightly the text binds: by README's table, from ?: (0) to a leaf (8).
struct Tree {
  std::string text;
  int level = 8;
  std::function<double(const Env&)> value;
};

constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 3;
constexpr int64_t kQueries = 3;
constexpr int64_t kKeys = 21;
constexpr int64_t kTableRows = 3;
constexpr int64_t kTableColumns = 8;

double TableElement(int64_t i, int64_t j) {
  return static_cast<double>(i * 8 + j) / 4 - 2;
}

double ReadTable(double i, double j) {
  i = std::floor(i);
  j = std::floor(j);
  const bool inside = i >= 0 && i < kTableRows && j >= 0 && j < kTableColumns;
  if (!inside) return kNaN;
  return TableElement(static_cast<int64_t>(i), static_cast<int64_t>(j));
}

// A remainder of 0 has no sign.
double FlooredModulo(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return 0;
  return std::signbit(r) != std::signbit(b) ? r + b : r;
}

double Least(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b);
}

double Greatest(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b);
}

double Logistic(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

using Unary = double (*)(double);
using Binary = double (*)(double, double);

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Tree Number(int depth) {
    if (depth == 0 || Below(8) == 0) return Leaf();
    switch (Below(6)) {
      case 0:
        return Negation(depth);
      case 1:
        return Call(depth);
      case 2:
        return Select(depth, Number(depth - 1), Number(depth - 1));
      case 3:
        return Table(depth);
      default:
        return Arithmetic(depth);
    }
  }

  Tree Bool(int depth) {
    if (depth == 0) return Constant(Below(2) != 0);
    switch (Below(6)) {
      case 0: {
        Tree a = Bool(depth - 1);
        return {absl::StrCat("!", Inside(a, 7)), 7,
                [a](const Env& e) { return a.value(e) != 0 ? 0 : 1; }};
      }
      case 1:
        return Infix(" && ", 2, Bool(depth - 1), Bool(depth - 1),
                     [](double a, double b) { return a * b; });
      case 2:
        return Infix(" || ", 1, Bool(depth - 1), Bool(depth - 1),
                     [](double a, double b) { return std::max(a, b); });
      case 3:
        return Select(depth, Bool(depth - 1), Bool(depth - 1));
      default:
        return Comparison(depth);
    }
  }

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  static std::string Inside(const Tree& tree, int level) {
    return tree.level >= level ? tree.text : "(" + tree.text + ")";
  }

  // Leans to the left.
  static Tree Infix(const char* symbol, int level, const Tree& a, const Tree& b,
                    Binary op) {
    return {Inside(a, level) + symbol + Inside(b, level + 1), level,
            [a, b, op](const Env& e) { return op(a.value(e), b.value(e)); }};
  }

  static Tree Constant(bool value) {
    return {value ? "true" : "false", 8,
            [value](const Env&) { return value ? 1 : 0; }};
  }

  Tree Leaf() {
    switch (Below(8)) {
      case 0:
        return {"b", 8,
                [](const Env& e) { return static_cast<double>(e.at.b); }};
      case 1:
        return {"h", 8,
                [](const Env& e) { return static_cast<double>(e.at.h); }};
      case 2:
        return {"q", 8,
                [](const Env& e) { return static_cast<double>(e.at.q); }};
      case 3:
        return {"k", 8,
                [](const Env& e) { return static_cast<double>(e.at.k); }};
      case 4:
        return {"p", 8, [](const Env& e) {
                  return static_cast<double>(e.at.q + kKeys - kQueries);
                }};
      case 5: {
        const double value = static_cast<double>(Below(64)) / 8;
        return {std::to_string(value), 8,
                [value](const Env&) { return value; }};
      }
      default:
        return {"score", 8, [](const Env& e) { return e.score; }};
    }
  }

  Tree Negation(int depth) {
    const Tree a = Number(depth - 1);
    return {absl::StrCat("-", Inside(a, 7)), 7,
            [a](const Env& e) { return -a.value(e); }};
  }

  Tree Call(int depth) {
    static const std::pair<const char*, Unary> kUnary[] = {
        {"abs", [](double x) { return std::abs(x); }},
        {"exp", [](double x) { return std::exp(x); }},
        {"log", [](double x) { return std::log(x); }},
        {"tanh", [](double x) { return std::tanh(x); }},
        {"sqrt", [](double x) { return std::sqrt(x); }},
        {"floor", [](double x) { return std::floor(x); }},
        {"sin", [](double x) { return std::sin(x); }},
        {"cos", [](double x) { return std::cos(x); }},
        {"sigmoid", Logistic}};
    static const std::pair<const char*, Binary> kBinary[] = {
        {"min", Least}, {"max", Greatest}, {"pow", [](double a, double b) {
                                              return std::pow(a, b);
                                            }}};
    const Tree a = Number(depth - 1);
    if (Below(4) != 0) {
      const auto& [name, op] = kUnary[Below(std::size(kUnary))];
      return {std::string(name) + "(" + a.text + ")", 8,
              [a, f = op](const Env& e) { return f(a.value(e)); }};
    }
    const Tree b = Number(depth - 1);
    if (Below(4) == 0) {
      const Tree c = Number(depth - 1);
      return {"clamp(" + a.text + ", " + b.text + ", " + c.text + ")", 8,
              [a, b, c](const Env& e) {
                return Least(Greatest(a.value(e), b.value(e)), c.value(e));
              }};
    }
    const auto& [name, op] = kBinary[Below(std::size(kBinary))];
    return {std::string(name) + "(" + a.text + ", " + b.text + ")", 8,
            [a, b, f = op](const Env& e) { return f(a.value(e), b.value(e)); }};
  }

  Tree Table(int depth) {
    const Tree a = Number(depth - 1);
    const Tree b = Number(depth - 1);
    return {"t[" + a.text + ", " + b.text + "]", 8,
            [a, b](const Env& e) { return ReadTable(a.value(e), b.value(e)); }};
  }

  Tree Select(int depth, const Tree& yes, const Tree& no) {
    const Tree c = Bool(depth - 1);
    return {Inside(c, 1) + " ? " + yes.text + " : " + no.text, 0,
            [c, yes, no](const Env& e) {
              return c.value(e) != 0 ? yes.value(e) : no.value(e);
            }};
  }

  Tree Arithmetic(int depth) {
    const Tree a = Number(depth - 1);
    const Tree b = Number(depth - 1);
    switch (Below(5)) {
      case 0:
        return Infix(" + ", 5, a, b, [](double x, double y) { return x + y; });
      case 1:
        return Infix(" - ", 5, a, b, [](double x, double y) { return x - y; });
      case 2:
        return Infix("*", 6, a, b, [](double x, double y) { return x * y; });
      case 3:
        return Infix("/", 6, a, b, [](double x, double y) { return x / y; });
      default:
        return Infix("%", 6, a, b, FlooredModulo);
    }
  }

  Tree Comparison(int depth) {
    const Tree a = Number(depth - 1);
    const Tree b = Number(depth - 1);
    switch (Below(6)) {
      case 0:
        return Infix("<", 4, a, b, [](double x, double y) -> double {
          return x < y ? 1 : 0;
        });
      case 1:
        return Infix("<=", 4, a, b, [](double x, double y) -> double {
          return x <= y ? 1 : 0;
        });
      case 2:
        return Infix(">", 4, a, b, [](double x, double y) -> double {
          return x > y ? 1 : 0;
        });
      case 3:
        return Infix(">=", 4, a, b, [](double x, double y) -> double {
          return x >= y ? 1 : 0;
        });
      case 4:
        return Infix("==", 3, a, b, [](double x, double y) -> double {
          return x == y ? 1 : 0;
        });
      default:
        return Infix("!=", 3, a, b, [](double x, double y) -> double {
          return x != y ? 1 : 0;
        });
    }
  }

  std::mt19937_64 random_;
};

TEST(RandomProgramTest, EveryElementIsWhatTheTreeSays) {
  ProgramCall call(kBatch, kHeads, kQueries, kKeys);
  std::vector<double> table;
  for (int64_t i = 0; i < kTableRows; ++i) {
    for (int64_t j = 0; j < kTableColumns; ++j) {
      table.push_back(TableElement(i, j));
    }
  }
  call.AddTable<double>("t", DType::kF64, {kTableRows, kTableColumns}, table);
  Generator generator(2024);
  int finite = 0;
  int checked = 0;
  for (int round = 0; round < 1500; ++round) {
    const Tree tree = generator.Number(1 + round % 5);
    const auto program = call.Compile(ProgramKind::kScore, tree.text);
    // A few are too large for a program.
    if (!program.ok()) {
      ASSERT_THAT(std::string(program.status().message()),
                  ::testing::HasSubstr("at most "))
          << tree.text;
      continue;
    }
    ++checked;
    const std::vector<double> got =
        RunOnScores<double>(call, ProgramKind::kScore, tree.text);
    size_t i = 0;
    ForEachElement(call.shape(), [&](const At& at) {
      const double want = tree.value({at, ScoreAt(at)});
      finite += std::isfinite(want) ? 1 : 0;
      ASSERT_TRUE(Near(got[i], want, 1e-9))
          << tree.text << " at " << at.b << " " << at.h << " " << at.q << " "
          << at.k << ": " << got[i] << " for " << want;
      ++i;
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(checked, 1300);
  EXPECT_GT(finite, checked * kBatch * kHeads * kQueries * kKeys / 3);
}

}  // namespace
}  // namespace attn
