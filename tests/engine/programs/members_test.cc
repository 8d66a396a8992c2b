// Built-in members, written as programs.
#include <cmath>
#include <vector>

#include "engine/biases/bias.h"
#include "engine/masks/mask.h"
#include "engine/tile/row_math.h"
#include "gmock/gmock.h"
#include "tests/engine/programs/program_call.h"

namespace attn {
namespace {

template <typename T>
void FillScores(const ProgramCall& call, Elements<T>& tile) {
  const TileBounds& b = tile.tile().bounds;
  for (int64_t q = 0; q < call.shape().q_length; ++q) {
    for (int64_t k = 0; k < call.shape().kv_length; ++k) {
      tile(q, k) = static_cast<T>(ScoreAt({b.batch, b.head, q, k}));
    }
  }
}

template <typename T>
void ExpectAlike(Elements<T>& got, Elements<T>& want, double tolerance) {
  const TileBounds& b = want.tile().bounds;
  for (int64_t q = 0; q < b.rows; ++q) {
    for (int64_t k = 0; k < b.keys; ++k) {
      ASSERT_TRUE(Near(static_cast<double>(got(q, k)),
                       static_cast<double>(want(q, k)), tolerance))
          << got(q, k) << " for " << want(q, k) << " at " << q << ", " << k;
    }
  }
}

template <typename T>
void ExpectAlibi(double tolerance) {
  const std::vector<double> slopes = {0.5, 0.25, 0.0625};
  ProgramCall call(2, 3, 5, 200);
  call.AddTable<double>("slope", DType::kF64, {3}, slopes);
  const auto program =
      call.Compile(ProgramKind::kScore, "score - slope[h] * abs(p - k)");
  ASSERT_TRUE(program.ok());
  const BiasSpec spec = AlibiBias{slopes};
  const auto alibi = BiasTable()[spec.index()].make(spec, call.problem());
  for (int64_t h = 0; h < 3; ++h) {
    Elements<T> got(call.Head(1, h));
    Elements<T> want(call.Head(1, h));
    FillScores(call, got);
    FillScores(call, want);
    (*program)->Run(call.view(), got.tile(), got.tile());
    alibi->Add(call.view(), want.tile());
    ExpectAlike(got, want, tolerance);
  }
}

TEST(MembersTest, AlibiAsAProgramGivesTheMembersNumbers) {
  ExpectAlibi<double>(1e-14);
  ExpectAlibi<float>(2e-7);
}

template <typename T>
void ExpectSoftcap(double tolerance) {
  const ProgramCall call(1, 1, 4, 130);
  const auto program =
      call.Compile(ProgramKind::kScore, "1.5 * tanh(score / 1.5)");
  ASSERT_TRUE(program.ok());
  Elements<T> got(call.Head(0, 0));
  Elements<T> want(call.Head(0, 0));
  FillScores(call, got);
  FillScores(call, want);
  (*program)->Run(call.view(), got.tile(), got.tile());
  for (int64_t q = 0; q < 4; ++q) {
    SoftcapRow(want.tile().Row(q), 130, T{1.5});
  }
  ExpectAlike(got, want, tolerance);
}

TEST(MembersTest, SoftcapAsAProgramGivesTheStagesNumbers) {
  ExpectSoftcap<double>(1e-14);
  ExpectSoftcap<float>(5e-7);
}

// Both members, one after the other, and both programs give the same keys.
void ExpectSameMask(const ProgramCall& call, const char* source,
                    const std::vector<MaskSpec>& members) {
  const MaskSpec spec = ProgramMask{call.Spec(source)};
  const MaskEntry& entry = MaskTable()[spec.index()];
  const absl::Status status =
      entry.validate(spec, call.problem(), "spec.masks[0]");
  ASSERT_TRUE(status.ok()) << status;
  const auto program = entry.make(spec, call.problem());
  for (int64_t b = 0; b < call.shape().batch; ++b) {
    Elements<float> got(call.Head(b, 0));
    Elements<float> want(call.Head(b, 0));
    FillScores(call, got);
    FillScores(call, want);
    program->Exclude(call.view(), got.tile());
    for (const MaskSpec& member : members) {
      MaskTable()[member.index()]
          .make(member, call.problem())
          ->Exclude(call.view(), want.tile());
    }
    ExpectAlike(got, want, 0);
  }
}

TEST(MembersTest, DocumentMaskAsAProgramGivesTheMembersKeys) {
  ProgramCall call(2, 1, 6, 6);
  call.AddTable<int32_t>("segment", DType::kI32, {2, 6},
                         {0, 0, 0, 1, 1, 2, 5, 5, 3, 3, 3, 3});
  ExpectSameMask(call, "segment[b, q] == segment[b, k]", {SegmentMask{0, 0}});
  ExpectSameMask(call, "segment[b, q] == segment[b, k] && k <= q",
                 {SegmentMask{0, 0}, CausalMask{Alignment::kTopLeft}});
}

TEST(MembersTest, CausalWindowAsAProgramGivesTheMembersKeys) {
  const ProgramCall call(1, 1, 5, 140);
  ExpectSameMask(call, "p - 9 <= k && k <= p + 2",
                 {WindowMask{9, 2, Alignment::kBottomRight}});
}

TEST(MembersTest, MaskErrorNamesThePathOfTheRequest) {
  const ProgramCall call(1, 1, 1, 1);
  const MaskSpec spec = ProgramMask{{"k + 1", {}}};
  const absl::Status status =
      MaskTable()[spec.index()].validate(spec, call.problem(), "spec.masks[2]");
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("spec.masks[2].program.program.source: "));
}

}  // namespace
}  // namespace attn
