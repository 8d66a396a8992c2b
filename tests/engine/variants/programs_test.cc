// Programs within the pipeline, against stages that say the same.
#include <cmath>
#include <limits>
#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "tests/engine/variants/spec_call.h"

namespace attn::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const char* const kKernels[] = {"rowwise", "reference"};

SpecCall Plain() { return {2, 2, 6, 150}; }

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want,
                float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == want[i];
    ASSERT_TRUE(same || std::abs(got[i] - want[i]) <= tolerance)
        << got[i] << " for " << want[i] << " at " << i;
  }
}

TEST(ProgramsTest, SoftcapAlibiAndCausalMaskGiveTheStagesNumbers) {
  SpecCall stages = Plain();
  stages.spec().softcap = 2;
  stages.spec().biases = {AlibiBias{{0.5, 0.125}}};
  stages.spec().masks = {CausalMask{Alignment::kBottomRight}};
  SpecCall programs = Plain();
  const uint32_t slope =
      programs.AddInput<float>(DType::kF32, {2}, {0.5F, 0.125F});
  programs.spec().score_program = ProgramSpec{
      "2 * tanh(score / 2) - slope[h] * abs(p - k)", {{"slope", slope}}};
  programs.spec().masks = {ProgramMask{{"k <= p", {}}}};
  for (const char* kernel : kKernels) {
    const SpecOutcome got = programs.Run(kernel);
    const SpecOutcome want = stages.Run(kernel);
    ExpectNear(got.masked_logits, want.masked_logits, 5e-6F);
    ExpectNear(got.weights, want.weights, 2e-6F);
    ExpectNear(got.output, want.output, 5e-6F);
  }
}

TEST(ProgramsTest, ScoreProgramMayExclude) {
  SpecCall mask = Plain();
  mask.spec().masks = {CausalMask{Alignment::kTopLeft}};
  SpecCall program = Plain();
  program.spec().score_program = ProgramSpec{"k <= q ? score : -inf", {}};
  for (const char* kernel : kKernels) {
    const SpecOutcome got = program.Run(kernel);
    const SpecOutcome want = mask.Run(kernel);
    EXPECT_EQ(got.masked_logits[1], -kInfinity);
    ExpectNear(got.masked_logits, want.masked_logits, 1e-6F);
    ExpectNear(got.output, want.output, 1e-6F);
  }
}

TEST(ProgramsTest, WeightProgramActsOnVisibleKeysOnly) {
  SpecCall plain = Plain();
  plain.spec().masks = {CausalMask{Alignment::kTopLeft}};
  SpecCall program = Plain();
  program.spec().masks = plain.spec().masks;
  program.spec().weight_program = ProgramSpec{"weight * .5 + h", {}};
  for (const char* kernel : kKernels) {
    const std::vector<float> got = program.Run(kernel).weights;
    const std::vector<float> before = plain.Run(kernel).weights;
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / 150;
      const auto head = static_cast<float>(row / 6 % 2);
      const float want = i % 150 <= row % 6 ? before[i] * 0.5F + head : 0.0F;
      ASSERT_NEAR(got[i], want, 1e-6) << i;
    }
  }
}

TEST(ProgramsTest, WeightProgramReachesTheOutput) {
  SpecCall program = Plain();
  program.spec().weight_program = ProgramSpec{"weight / 2", {}};
  for (const char* kernel : kKernels) {
    std::vector<float> want = Plain().Run(kernel).output;
    for (float& x : want) x /= 2;
    ExpectNear(program.Run(kernel).output, want, 1e-6F);
  }
}

TEST(ProgramsTest, WrongProgramIsNamed) {
  SpecCall call = Plain();
  call.spec().score_program = ProgramSpec{"weight", {}};
  EXPECT_EQ(FieldOf(call.Check()), "spec.score_program.source");
  call.spec().score_program.reset();
  call.spec().weight_program = ProgramSpec{"weight", {{"t", 0}}};
  EXPECT_EQ(FieldOf(call.Check()),
            "spec.weight_program.tables[0].tensor.input");
  call.spec().weight_program.reset();
  call.spec().masks = {ProgramMask{{"1", {}}}};
  EXPECT_EQ(FieldOf(call.Check()), "spec.masks[0].program.program.source");
}

}  // namespace
}  // namespace attn::testing
