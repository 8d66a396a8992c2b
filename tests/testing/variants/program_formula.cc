#include <cmath>
#include <cstdlib>
#include <functional>

#include "gtest/gtest.h"
#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

// What a program sees.
struct Sight {
  double x;  // score or weight
  int64_t q, k, p, h, b;
  double t;  // t[h]
};

// A program, and what it says in C++.
struct Meaning {
  const char* source;
  double (*value)(const Sight&);
};

constexpr Meaning kScores[] = {
    {"30 * tanh(score / 30)",
     [](const Sight& s) { return 30 * std::tanh(s.x / 30); }},
    {"score - 0.25 * abs(p - k)",
     [](const Sight& s) {
       return s.x - 0.25 * static_cast<double>(std::abs(s.p - s.k));
     }},
    {"score + t[h] * (k - q) / 16",
     [](const Sight& s) {
       return s.x + s.t * static_cast<double>(s.k - s.q) / 16;
     }},
    {"(q + k) % 3 == 0 ? score : score * 0.5 - 1",
     [](const Sight& s) { return (s.q + s.k) % 3 == 0 ? s.x : s.x * 0.5 - 1; }},
};

constexpr Meaning kMasks[] = {
    {"k <= p || (q + k) % 3 == 0",
     [](const Sight& s) {
       return s.k <= s.p || (s.q + s.k) % 3 == 0 ? 1.0 : 0.0;
     }},
    {"(k + h + b) % 4 != 1",
     [](const Sight& s) { return (s.k + s.h + s.b) % 4 != 1 ? 1.0 : 0.0; }},
    {"t[h] > 0 ? k % 2 == 0 : k <= q",
     [](const Sight& s) {
       return (s.t > 0 ? s.k % 2 == 0 : s.k <= s.q) ? 1.0 : 0.0;
     }},
};

constexpr Meaning kWeights[] = {
    {"k % 2 == 0 ? weight : weight * 0.5",
     [](const Sight& s) { return s.k % 2 == 0 ? s.x : s.x * 0.5; }},
    {"weight * t[h]", [](const Sight& s) { return s.x * s.t; }},
    {"max(weight - 0.01, 0)",
     [](const Sight& s) { return s.x > 0.01 ? s.x - 0.01 : 0; }},
};

template <size_t kCount>
std::vector<std::string> Sources(const Meaning (&meanings)[kCount]) {
  std::vector<std::string> sources;
  for (const Meaning& meaning : meanings) sources.emplace_back(meaning.source);
  return sources;
}

template <size_t kCount>
const Meaning* Find(const Meaning (&meanings)[kCount],
                    const std::string& source) {
  for (const Meaning& meaning : meanings) {
    if (source == meaning.source) return &meaning;
  }
  return nullptr;
}

}  // namespace

double RunProgram(const VariantCase& call, const ProgramSpec& spec,
                  const Pair& at, double x) {
  const int64_t p = at.query + call.shape.kv_length - call.shape.q_length;
  const double t = spec.tables.empty()
                       ? 0
                       : call.inputs[spec.tables[0].input]
                             .data[static_cast<size_t>(at.head)];
  const Meaning* meaning = Find(kScores, spec.source);
  if (meaning == nullptr) meaning = Find(kMasks, spec.source);
  if (meaning == nullptr) meaning = Find(kWeights, spec.source);
  if (meaning == nullptr) {
    ADD_FAILURE() << "no formula for " << spec.source;
    return 0;
  }
  return meaning->value({x, at.query, at.key, p, at.head, at.batch, t});
}

const std::vector<std::string>& ScorePrograms() {
  static const auto& kSources = *new std::vector<std::string>(Sources(kScores));
  return kSources;
}
const std::vector<std::string>& MaskPrograms() {
  static const auto& kSources = *new std::vector<std::string>(Sources(kMasks));
  return kSources;
}
const std::vector<std::string>& WeightPrograms() {
  static const auto& kSources =
      *new std::vector<std::string>(Sources(kWeights));
  return kSources;
}

}  // namespace attn::oracle
