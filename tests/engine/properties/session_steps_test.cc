// A session's steps give what one call of all tokens gives, for every member of
// every table that a session may have; the others are refused by name.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/engine/properties/one_member.h"
#include "tests/engine/properties/stepped_case.h"

namespace attn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// More than three blocks of a session.
constexpr int64_t kSessionTokens = 200;
constexpr AttentionShape kSessionShape = {.batch = 1,
                                          .q_heads = 2,
                                          .kv_heads = 1,
                                          .q_length = kSessionTokens,
                                          .kv_length = kSessionTokens,
                                          .q_dim = 8,
                                          .k_dim = 8,
                                          .v_dim = 6};

// Leaves the alignment of every mask open, as a session fills it in.
void LeaveAlignmentOpen(std::vector<MaskSpec>& masks) {
  for (MaskSpec& mask : masks) {
    std::visit(
        [](auto& member) {
          if constexpr (requires { member.alignment; }) {
            member.alignment = Alignment::kUnspecified;
          }
          if constexpr (requires { member.masks; }) {
            LeaveAlignmentOpen(member.masks);
          }
        },
        static_cast<MaskSpec::variant&>(mask));
  }
}

oracle::VariantCase SessionCase(oracle::Random& random,
                                const oracle::MemberGenerator& generator) {
  auto call = CaseAround(random, generator, kSessionShape);
  LeaveAlignmentOpen(call.spec.masks);
  return call;
}

oracle::VariantCase WithMask(oracle::VariantCase call, const MaskSpec& mask) {
  call.spec.masks.push_back(mask);
  return call;
}

// Sizes of steps, over and over.
using StepSizes = std::vector<int64_t>;

// Where the step ends that has a token.
std::vector<int64_t> EndsOfSteps(int64_t tokens, const StepSizes& sizes) {
  std::vector<int64_t> ends;
  for (size_t turn = 0; std::ssize(ends) < tokens; ++turn) {
    const int64_t begin = std::ssize(ends);
    const int64_t end = std::min(begin + sizes[turn % sizes.size()], tokens);
    ends.insert(ends.end(), static_cast<size_t>(end - begin), end);
  }
  return ends;
}

// The case with what a spec that is not causal means in steps: a token sees no
// key behind the step that it comes with.
oracle::VariantCase SeeingItsStep(oracle::VariantCase call,
                                  const StepSizes& sizes) {
  const AttentionShape& s = call.shape;
  oracle::Parameter seen{DType::kBool, {s.q_length, s.kv_length}, {}, false};
  for (const int64_t end : EndsOfSteps(s.q_length, sizes)) {
    for (int64_t key = 0; key < s.kv_length; ++key) {
      seen.data.push_back(key < end ? 1 : 0);
    }
  }
  const uint32_t input = call.Add(std::move(seen));
  return WithMask(std::move(call), DenseMask{input});
}

// A step's output against rows of the formulas' [1, Hq, S, d_v]; `where` is for
// messages.
void ExpectRowsOf(const oracle::VariantResult& want,
                  const oracle::VariantCase& call, int64_t begin, int64_t count,
                  const std::vector<double>& got, const std::string& where) {
  const AttentionShape& s = call.shape;
  ASSERT_EQ(std::ssize(got), s.q_heads * count * s.v_dim) << where;
  constexpr Closeness kCloseness;
  for (int64_t at = 0; at < std::ssize(got); ++at) {
    const int64_t head = at / (count * s.v_dim);
    const int64_t token = begin + at / s.v_dim % count;
    const auto row = static_cast<size_t>(head * s.q_length + token);
    if (want.margin[row] < kCloseness.margin) continue;
    const double wanted = want.output[row * static_cast<size_t>(s.v_dim) +
                                      static_cast<size_t>(at % s.v_dim)];
    ASSERT_NEAR(got[static_cast<size_t>(at)], wanted,
                kCloseness.tolerance * (1 + std::abs(wanted) + want.mass[row]))
        << where << ", head " << head << ", token " << token << " of "
        << Describe(call);
  }
}

// From where the session is to `end`.
void ExpectStepsOf(const oracle::VariantResult& want,
                   const oracle::VariantCase& call, const StepSizes& sizes,
                   int64_t end, SteppedCase& session,
                   const std::string& where) {
  size_t turn = 0;
  while (session.sequence().length() < end) {
    const int64_t begin = session.sequence().length();
    const int64_t count = std::min(sizes[turn++ % sizes.size()], end - begin);
    ExpectRowsOf(want, call, begin, count, session.Step(begin, count), where);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// A fork writes other tokens, takes them back and goes on; so does its origin,
// each as if it were alone.
void ExpectForksAndRollbacks(const oracle::VariantResult& want,
                             const oracle::VariantCase& call,
                             SteppedCase session) {
  const int64_t tokens = call.shape.q_length;
  const int64_t fork_at = tokens * 3 / 5;
  ExpectStepsOf(want, call, {50}, tokens * 3 / 4, session, "origin");
  ASSERT_TRUE(session.Rollback(fork_at).ok());
  SteppedCase fork = session;
  fork.Step(0, 20);
  ExpectStepsOf(want, call, {7}, tokens, session, "after a rollback");
  ASSERT_TRUE(fork.Rollback(fork_at).ok());
  ExpectStepsOf(want, call, {1, 30}, tokens, fork, "in a fork");
}

SteppedCase SessionOf(const oracle::VariantCase& call) {
  auto session = SteppedCase::Make(call);
  EXPECT_TRUE(session.ok()) << session.status() << " for " << Describe(call);
  return *std::move(session);
}

const StepSizes kSessionSteps[] = {{1}, {3}, {100, 1, 1, 64}};

void ExpectASessionGivesTheWhole(const oracle::VariantCase& call) {
  const auto causal = WithMask(call, CausalMask{});
  const oracle::VariantResult want = oracle::AttendVariant(causal);
  for (const StepSizes& sizes : kSessionSteps) {
    SteppedCase session = SessionOf(causal);
    ExpectStepsOf(want, causal, sizes, call.shape.q_length, session,
                  "in steps of " + ::testing::PrintToString(sizes));
  }
  ExpectForksAndRollbacks(want, causal, SessionOf(causal));
  // Without a causal mask tokens see those that come with them.
  const StepSizes sizes = {3, 20};
  SteppedCase session = SessionOf(call);
  ExpectStepsOf(oracle::AttendVariant(SeeingItsStep(call, sizes)), call, sizes,
                call.shape.q_length, session, "with the keys of its step");
}

// Members that look at rows of a call whatever their parameters, and the dense
// mask, which is over keys in all random cases.
const std::set<std::string>& NeverInASession() {
  static const auto& kNever = *new std::set<std::string>{
      "mask segment", "mask block_sparse",        "mask big_bird",
      "mask dense",   "bias continuous_position", "normalizer linear",
      "dropout"};
  return kNever;
}

// Members of which some look at rows of a call: by the extents of an input, by
// what a program names.
const std::set<std::string>& SometimesInASession() {
  static const auto& kSometimes = *new std::set<std::string>{
      "transform rotary", "bias dense",     "mask any_of", "mask program",
      "score_program",    "weight_program", "head_gate"};
  return kSometimes;
}

std::string NameOf(const std::string& stage,
                   const oracle::MemberGenerator& generator) {
  // Stages of one member have its name, or "program".
  const bool alone = stage == generator.name || stage == "score_program" ||
                     stage == "weight_program";
  return alone ? stage : stage + " " + generator.name;
}

// Every member: those of the engine's tables, and the stages without a table.
template <typename Visit>
void ForEachStageMember(Visit visit) {
  ForEachMember(visit);
  for (const oracle::StageGenerators& stage : oracle::Generators()) {
    const auto tables = ListStages();
    const bool in_a_table = std::any_of(
        tables.begin(), tables.end(),
        [&](const StageInfo& known) { return known.stage == stage.stage; });
    if (in_a_table) continue;
    for (const auto& generator : stage.members) visit(stage.stage, generator);
  }
}

TEST(SessionSteps, GiveWhatOneCallGivesForEveryMemberOrItIsRefusedByName) {
  oracle::Random random(381);
  ForEachStageMember([&](const std::string& stage, const auto& generator) {
    const std::string name = NameOf(stage, generator);
    int stepped = 0;
    int refused = 0;
    for (int trial = 0; trial < 12 && stepped < 2; ++trial) {
      const auto call = SessionCase(random, generator);
      const absl::Status status = SteppedCase::Make(call).status();
      if (status.ok()) {
        ++stepped;
        ExpectASessionGivesTheWhole(call);
        continue;
      }
      ++refused;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), StartsWith("spec."));
      EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
    }
    EXPECT_EQ(stepped == 0, NeverInASession().contains(name)) << name;
    EXPECT_TRUE(refused == 0 || NeverInASession().contains(name) ||
                SometimesInASession().contains(name))
        << name;
  });
}

// Softcap and temperatures have no member: they are numbers.
TEST(SessionSteps, GiveWhatOneCallGivesWithACapAndTemperatures) {
  oracle::Random random(382);
  oracle::VariantCase call;
  call.shape = kSessionShape;
  oracle::FillTensors(random, call, DType::kF32);
  call.spec.softcap = 2;
  call.spec.temperatures = {0.5, 2};
  ExpectASessionGivesTheWhole(call);
}

// Whether keys are other numbers when they are compared than when they came.
bool ChangesKeys(const AttentionSpec& spec) {
  return std::any_of(spec.transforms.begin(), spec.transforms.end(),
                     [](const TransformSpec& transform) {
                       return std::visit(
                           [](const auto& member) {
                             return member.target != TransformTarget::kQuery;
                           },
                           transform);
                     });
}

// Keys that are changed are rounded to the type they are kept in, which a call
// does not do: a half of the last digit of each, of which a logit has a sum.
void ExpectNarrowKeysAreNear(const std::vector<double>& got,
                             const std::vector<double>& whole, DType dtype) {
  const double digits = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  ASSERT_EQ(got.size(), whole.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], whole[i], 16 * digits * (1 + std::abs(whole[i])));
  }
}

TEST(SessionSteps, OneStepOfAllTokensHasTheBitsOfOneCall) {
  oracle::Random random(386);
  size_t same = 0;
  ForEachStageMember([&](const std::string&, const auto& generator) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const int64_t tokens : {int64_t{2}, kSessionTokens}) {
        AttentionShape shape = kSessionShape;
        shape.q_length = shape.kv_length = tokens;
        auto call = CaseAround(random, generator, shape, false, dtype);
        LeaveAlignmentOpen(call.spec.masks);
        call.spec.masks.emplace_back(CausalMask{});
        auto session = SteppedCase::Make(call, dtype, dtype);
        if (!session.ok()) continue;
        const std::vector<double> whole = session->WholeCall();
        const std::vector<double> got = session->Step(0, tokens);
        if (dtype != DType::kF32 && ChangesKeys(call.spec)) {
          ExpectNarrowKeysAreNear(got, whole, dtype);
          continue;
        }
        ++same;
        EXPECT_EQ(got, whole) << Name(dtype) << ", " << Describe(call);
      }
    }
  });
  EXPECT_GT(same, 100U);
}

TEST(SessionSteps, GiveWhatOneCallGivesWithADenseMaskOfHeads) {
  oracle::Random random(387);
  oracle::VariantCase call;
  call.shape = kSessionShape;
  oracle::FillTensors(random, call, DType::kF32);
  const uint32_t heads = call.Add({DType::kBool, {2, 1, 1}, {1, 0}, false});
  ExpectASessionGivesTheWhole(WithMask(std::move(call), DenseMask{heads}));
}

struct WindowSession {
  const char* name;
  MaskSpec mask;
};

class SessionWindows : public ::testing::TestWithParam<WindowSession> {};

constexpr int64_t kWindowTokens = 400;

oracle::VariantCase WindowCaseOf(const MaskSpec& mask, uint64_t seed) {
  oracle::Random random(seed);
  oracle::VariantCase call;
  call.shape = kSessionShape;
  call.shape.q_length = call.shape.kv_length = kWindowTokens;
  oracle::FillTensors(random, call, DType::kF32);
  return WithMask(WithMask(std::move(call), CausalMask{}), mask);
}

TEST_P(SessionWindows, GiveWhatOneCallGivesWhenTheirKeysAreGone) {
  const auto call = WindowCaseOf(GetParam().mask, 383);
  const oracle::VariantResult want = oracle::AttendVariant(call);
  for (const StepSizes& sizes : {StepSizes{1}, {3}, {90, 1, 20}}) {
    SteppedCase session = SessionOf(call);
    ExpectStepsOf(want, call, sizes, kWindowTokens, session, "window");
    EXPECT_GT(session.sequence().extent().released_blocks(), 0);
  }
}

TEST_P(SessionWindows, ARollbackAndAForkWithinTheWindowGoOnAsOneCall) {
  const auto call = WindowCaseOf(GetParam().mask, 384);
  const oracle::VariantResult want = oracle::AttendVariant(call);
  SteppedCase session = SessionOf(call);
  ExpectStepsOf(want, call, {10}, 390, session, "origin");
  ASSERT_GT(session.sequence().extent().released_blocks(), 0);
  ASSERT_TRUE(session.Rollback(375).ok());
  SteppedCase fork = session;
  // Other tokens, and more than a block of them.
  fork.Step(0, 100);
  ExpectStepsOf(want, call, {1}, kWindowTokens, session, "after a rollback");
  ASSERT_TRUE(fork.Rollback(375).ok());
  ExpectStepsOf(want, call, {4}, kWindowTokens, fork, "in a fork");
}

TEST_P(SessionWindows, ARollbackWhoseWindowIsGoneIsRefusedAndHarmsNothing) {
  const auto call = WindowCaseOf(GetParam().mask, 385);
  const oracle::VariantResult want = oracle::AttendVariant(call);
  SteppedCase session = SessionOf(call);
  ExpectStepsOf(want, call, {10}, 390, session, "origin");
  EXPECT_EQ(session.Rollback(150).code(),
            absl::StatusCode::kFailedPrecondition);
  ExpectStepsOf(want, call, {1}, kWindowTokens, session, "afterwards");
}

MaskSpec SinksAndWindow(int64_t sinks, int64_t left) {
  StreamingMask mask;
  mask.sinks = sinks;
  mask.left = left;
  return mask;
}

MaskSpec WindowTo(int64_t left) {
  WindowMask mask;
  mask.left = left;
  return mask;
}

INSTANTIATE_TEST_SUITE_P(
    Masks, SessionWindows,
    ::testing::Values(WindowSession{"Window", WindowTo(40)},
                      WindowSession{"WindowOfABlock", WindowTo(64)},
                      WindowSession{"Sinks", SinksAndWindow(4, 40)},
                      WindowSession{"SinksOfABlock", SinksAndWindow(64, 30)},
                      WindowSession{"SinksOverABlock", SinksAndWindow(70, 30)},
                      WindowSession{"NoSinks", SinksAndWindow(0, 5)}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace attn::testing
