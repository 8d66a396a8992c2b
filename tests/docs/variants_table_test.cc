// README.md's table of variants against the engine's tables.
//
// With ATTN_UPDATE_DOCS=1 the test writes the table in place of checking it.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/variants/random_variant.h"
#include "tests/testing/variants/variant_run.h"

namespace attn {
namespace {

constexpr char kBegin[] = "<!-- variants: written by tests/docs -->\n";
constexpr char kEnd[] = "<!-- end of variants -->\n";
constexpr char kReadme[] = ATTN_SOURCE_DIR "/README.md";

// A case of every shape that members ask for.
oracle::VariantCase CaseOf(const oracle::MemberGenerator& generator,
                           uint64_t seed, DType dtype = DType::kF32) {
  oracle::Random random(seed);
  oracle::VariantCase call;
  call.shape = {.batch = 1,
                .q_heads = 2,
                .kv_heads = 1,
                .q_length = 3,
                .kv_length = 3,
                .q_dim = 4,
                .k_dim = 4,
                .v_dim = 4};
  if (generator.fit != nullptr) generator.fit(call.shape);
  oracle::FillTensors(random, call, dtype);
  generator.add(random, call);
  return call;
}

// Whether the kernel computes the member whatever its parameters, with rows of
// scores or without. What the machine lacks is not the member's.
bool Computes(const std::string& kernel,
              const oracle::MemberGenerator& generator, DType dtype) {
  constexpr uint64_t kTrials = 16;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    const testing::VariantRun run(CaseOf(generator, seed, dtype), dtype);
    const std::string why_not =
        run.WhyNot(kernel, testing::Rows::kWherePossible);
    if (!why_not.empty() && !absl::StartsWith(why_not, "this machine ")) {
      return false;
    }
  }
  return true;
}

// The kernels that compute the member in F32 or in BF16, in order.
std::string KernelsOf(const oracle::MemberGenerator& generator) {
  std::string text;
  for (const std::string& kernel : ListKernels()) {
    if (Computes(kernel, generator, DType::kF32) ||
        Computes(kernel, generator, DType::kBF16)) {
      text += (text.empty() ? "" : ", ") + kernel;
    }
  }
  return text;
}

// Stages that choose keys hand gradients on and have none of their own.
std::string GradientOf(const std::string& stage,
                       const oracle::MemberGenerator& generator) {
  if (stage == "mask") return "of the allowed keys";
  if (stage == "sparsifier") return "of the kept keys";
  const testing::VariantRun run(CaseOf(generator, 0));
  const absl::Status status = run.PlanBackward();
  if (status.ok()) return "yes";
  const std::string why(status.message());
  constexpr char kBefore[] = "a normalizer with a gradient: ";
  const size_t reason = why.find(kBefore);
  EXPECT_NE(reason, std::string::npos) << why;
  if (reason == std::string::npos) return "no: " + why;
  return "no: " + why.substr(reason + sizeof(kBefore) - 1);
}

// A cell must not end early, nor be taken for HTML.
std::string Cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|' || c == '<') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string Table() {
  std::ostringstream table;
  table << "| stage | member | what it is | kernels | gradient |\n"
        << "|---|---|---|---|---|\n";
  for (const StageInfo& stage : ListStages()) {
    for (const MemberInfo& member : stage.members) {
      const auto* generator = oracle::FindGenerator(stage.stage, member.name);
      if (generator == nullptr) {
        ADD_FAILURE() << stage.stage << " " << member.name
                      << " has no generator";
        continue;
      }
      table << "| " << stage.stage << " | `" << member.name << "` | "
            << Cell(member.summary) << " | " << KernelsOf(*generator) << " | "
            << Cell(GradientOf(stage.stage, *generator)) << " |\n";
    }
  }
  return table.str();
}

std::string ReadReadme() {
  std::ifstream stream(kReadme);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Readme, HoldsTheTableOfVariantsThatTheEnginesTablesSay) {
  const std::string readme = ReadReadme();
  const size_t begin = readme.find(kBegin);
  const size_t end = readme.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << "no " << kBegin;
  ASSERT_NE(end, std::string::npos) << "no " << kEnd;
  const size_t first = begin + std::string(kBegin).size();
  const std::string table = Table();
  const char* update = std::getenv("ATTN_UPDATE_DOCS");  // NOLINT
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(kReadme) << readme.substr(0, first) << table
                           << readme.substr(end);
    return;
  }
  EXPECT_EQ(readme.substr(first, end - first), table)
      << "Stale: ATTN_UPDATE_DOCS=1 build/test/bin/docs_test";
}

}  // namespace
}  // namespace attn
