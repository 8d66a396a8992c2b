#include "engine/core/problem.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorView Described(Shape shape, DType dtype = DType::kF32) {
  return TensorView::Dense(nullptr, dtype, std::move(shape));
}

// What MakeProblem() takes; a test changes one thing.
struct Call {
  AttentionSpec spec;
  AttentionArgs args;
  OutputSelection outputs;
  DType output_dtype = DType::kF32;
  std::string kernel;

  absl::StatusOr<Problem> Make() const {
    return MakeProblem(spec, args, outputs, output_dtype, kernel);
  }
};

Call GoodCall() {
  Call call;
  call.args.q = Described({2, 8, 5, 16});
  call.args.k = Described({2, 2, 7, 16});
  call.args.v = Described({2, 2, 7, 24});
  return call;
}

TEST(ProblemTest, TakesExtentsAndTypesFromTheTensors) {
  Call call = GoodCall();
  call.args.inputs = {Described({8, 5, 7}), Described({7}, DType::kBool)};
  call.args.kv_lengths = {0, 7};
  call.output_dtype = DType::kBF16;
  call.outputs.weights = true;
  call.kernel = "reference";
  const absl::StatusOr<Problem> problem = call.Make();
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->shape.batch, 2);
  EXPECT_EQ(problem->shape.q_heads, 8);
  EXPECT_EQ(problem->shape.kv_heads, 2);
  EXPECT_EQ(problem->shape.q_length, 5);
  EXPECT_EQ(problem->shape.kv_length, 7);
  EXPECT_EQ(problem->shape.q_dim, 16);
  EXPECT_EQ(problem->shape.k_dim, 16);
  EXPECT_EQ(problem->shape.v_dim, 24);
  EXPECT_EQ(problem->dtype, DType::kF32);
  EXPECT_EQ(problem->output_dtype, DType::kBF16);
  ASSERT_EQ(problem->inputs.size(), 2u);
  EXPECT_EQ(problem->inputs[1], (TensorSignature{DType::kBool, Shape({7})}));
  EXPECT_FALSE(problem->has_q_lengths);
  EXPECT_TRUE(problem->has_kv_lengths);
  EXPECT_TRUE(problem->outputs.weights);
  EXPECT_EQ(problem->kernel, "reference");
}

struct BadCall {
  const char* what;
  const char* field;
  std::function<void(Call&)> spoil;
};

std::vector<BadCall> BadShapes() {
  return {
      {"q of rank 3", "q.shape",
       [](Call& c) {
         c.args.q = Described({8, 5, 16});
       }},
      {"k of rank 5", "k.shape",
       [](Call& c) {
         c.args.k = Described({1, 2, 2, 7, 16});
       }},
      {"v of rank 0", "v.shape", [](Call& c) { c.args.v = Described({}); }},
      {"batch of k", "k.shape",
       [](Call& c) {
         c.args.k = Described({1, 2, 7, 16});
       }},
      {"batch of v", "v.shape",
       [](Call& c) {
         c.args.v = Described({3, 2, 7, 24});
       }},
      {"heads that do not divide", "k.shape",
       [](Call& c) {
         c.args.k = Described({2, 3, 7, 16});
         c.args.v = Described({2, 3, 7, 24});
       }},
      {"more KV heads than query heads", "k.shape",
       [](Call& c) {
         c.args.k = Described({2, 16, 7, 16});
         c.args.v = Described({2, 16, 7, 24});
       }},
      {"no KV head", "k.shape",
       [](Call& c) {
         c.args.k = Described({2, 0, 7, 16});
         c.args.v = Described({2, 0, 7, 24});
       }},
      {"heads of v", "v.shape",
       [](Call& c) {
         c.args.v = Described({2, 4, 7, 24});
       }},
      {"length of v", "v.shape",
       [](Call& c) {
         c.args.v = Described({2, 2, 6, 24});
       }},
      {"scores beyond memory", "q.shape",
       [](Call& c) {
         const int64_t huge = int64_t{1} << 40;
         c.args.q = Described({1, 1, huge, 0});
         c.args.k = Described({1, 1, huge, 0});
         c.args.v = Described({1, 1, huge, 0});
       }},
      {"an axis of q", "q.shape",
       [](Call& c) {
         c.args.q = Described({2, 8, 0, (int64_t{1} << 40) + 1});
       }},
      {"an axis of v without keys", "v.shape",
       [](Call& c) {
         c.args.v = Described({2, 2, 0, int64_t{1} << 57});
       }},
      {"extents of k around one of 0", "k.shape",
       [](Call& c) {
         c.args.k = Described({1 << 20, 1 << 20, 0, 1 << 20});
       }},
      {"an axis of an input", "inputs[1].shape",
       [](Call& c) {
         c.args.inputs = {Described({7}), Described({0, int64_t{1} << 57})};
       }},
  };
}

std::vector<BadCall> BadTypes() {
  return {
      {"q of integers", "q.dtype",
       [](Call& c) { c.args.q.dtype = DType::kI8; }},
      {"q of an unknown type", "q.dtype",
       [](Call& c) { c.args.q.dtype = static_cast<DType>(77); }},
      {"k unlike q", "k.dtype", [](Call& c) { c.args.k.dtype = DType::kF16; }},
      {"v unlike q", "v.dtype", [](Call& c) { c.args.v.dtype = DType::kBF16; }},
      {"integer output", "output_dtype",
       [](Call& c) { c.output_dtype = DType::kI32; }},
      {"double output of floats", "output_dtype",
       [](Call& c) { c.output_dtype = DType::kF64; }},
      {"float output of doubles", "output_dtype",
       [](Call& c) {
         c.args.q.dtype = c.args.k.dtype = c.args.v.dtype = DType::kF64;
       }},
  };
}

std::vector<BadCall> BadLengths() {
  return {
      {"too few q_lengths", "q_lengths",
       [](Call& c) { c.args.q_lengths = {5}; }},
      {"too many kv_lengths", "kv_lengths",
       [](Call& c) {
         c.args.kv_lengths = {7, 7, 7};
       }},
      {"a q_length beyond Sq", "q_lengths[0]",
       [](Call& c) {
         c.args.q_lengths = {6, 5};
       }},
      {"a kv_length beyond Sk", "kv_lengths[1]",
       [](Call& c) {
         c.args.kv_lengths = {7, 8};
       }},
      {"a negative q_length", "q_lengths[1]",
       [](Call& c) {
         c.args.q_lengths = {0, -1};
       }},
  };
}

std::vector<BadCall> BadSpecs() {
  std::vector<BadCall> calls = {
      {"two temperatures for eight heads", "spec.temperatures",
       [](Call& c) {
         c.spec.temperatures = {1, 1};
       }},
      {"the last temperature is 0", "spec.temperatures[7]",
       [](Call& c) { c.spec.temperatures = {1, 1, 1, 1, 1, 1, 1, 0}; }},
  };
  for (const double bad : {0.0, -1.0, kInfinity, kNan}) {
    calls.push_back(
        {"softcap", "spec.softcap", [bad](Call& c) { c.spec.softcap = bad; }});
    calls.push_back({"temperature", "spec.temperatures[0]",
                     [bad](Call& c) { c.spec.temperatures = {bad}; }});
  }
  return calls;
}

TEST(ProblemTest, EveryErrorNamesItsField) {
  ASSERT_TRUE(GoodCall().Make().ok());
  for (const auto& group :
       {BadShapes(), BadTypes(), BadLengths(), BadSpecs()}) {
    for (const BadCall& bad : group) {
      Call call = GoodCall();
      bad.spoil(call);
      const absl::Status status = call.Make().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.what;
      EXPECT_EQ(FieldOf(status), bad.field) << bad.what << ": " << status;
    }
  }
}

TEST(ProblemTest, HeadsOfARaggedCallAreRefused) {
  Call call;
  call.args.q = Described({5, 8, 16});
  call.args.k = call.args.v = Described({7, 2, 16});
  call.args.q_offsets = {0, 2, 5};
  call.args.kv_offsets = {0, 7, 7};
  ASSERT_TRUE(call.Make().ok()) << call.Make().status();
  call.outputs.head_output = true;
  EXPECT_EQ(FieldOf(call.Make().status()), "outputs");
}

TEST(ProblemTest, AnErrorSaysWhatCameAndWhatWasExpected) {
  Call call = GoodCall();
  call.args.v = Described({2, 2, 6, 24});
  EXPECT_EQ(call.Make().status().message(),
            "v.shape: got [2, 2, 6, 24], expected length 7 as in k.shape "
            "[2, 2, 7, 16]");
}

TEST(ProblemTest, EmptyExtentsAreLegal) {
  struct Shapes {
    const char* what;
    Shape q, k, v;
  };
  const Shapes cases[] = {
      {"no keys", {2, 8, 5, 16}, {2, 2, 0, 16}, {2, 2, 0, 24}},
      {"no queries", {2, 8, 0, 16}, {2, 2, 7, 16}, {2, 2, 7, 24}},
      {"d_k = 0", {2, 8, 5, 0}, {2, 2, 7, 0}, {2, 2, 7, 24}},
      {"d_v = 0", {2, 8, 5, 16}, {2, 2, 7, 16}, {2, 2, 7, 0}},
      {"no batch", {0, 8, 5, 16}, {0, 2, 7, 16}, {0, 2, 7, 24}},
      {"no heads", {2, 0, 5, 16}, {2, 0, 7, 16}, {2, 0, 7, 24}},
      {"no query heads", {2, 0, 5, 16}, {2, 2, 7, 16}, {2, 2, 7, 24}},
  };
  for (const Shapes& shapes : cases) {
    Call call;
    call.args.q = Described(shapes.q);
    call.args.k = Described(shapes.k);
    call.args.v = Described(shapes.v);
    EXPECT_TRUE(call.Make().ok()) << shapes.what;
  }
}

TEST(ProblemTest, EveryFloatTypeIsTakenWithItsOutputs) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType output : {DType::kF32, DType::kF16, DType::kBF16}) {
      Call call = GoodCall();
      call.args.q.dtype = call.args.k.dtype = call.args.v.dtype = dtype;
      call.output_dtype = output;
      EXPECT_TRUE(call.Make().ok()) << Name(dtype) << " to " << Name(output);
    }
  }
  Call call = GoodCall();
  call.args.q.dtype = call.args.k.dtype = call.args.v.dtype = DType::kF64;
  call.output_dtype = DType::kF64;
  EXPECT_TRUE(call.Make().ok());
}

// What a call forms of tensors that hold nothing: each would wrap around.
TEST(ProblemTest, HugeButEmptyShapesAreRefusedBeforeAnyProductOverflows) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const auto field = [](const std::function<void(Call&)>& spoil) {
    Call call = GoodCall();
    spoil(call);
    return FieldOf(call.Make().status());
  };
  EXPECT_EQ(field([](Call& c) {
              c.spec.transforms.assign(8, NormTransform{});
              c.args.q = Described({2, 8, 0, kHuge});
              c.args.k = Described({2, 2, 0, kHuge});
              c.args.v = Described({2, 2, 0, 1});
            }),
            "q.shape");
  EXPECT_EQ(field([](Call& c) {
              c.args.q = Described({2, 8, 0, 0});
              c.args.k = Described({2, 2, 1 << 10, 0});
              c.args.v = Described({2, 2, 1 << 10, 1});
              c.args.inputs = {Described({0, kHuge})};
              c.spec.score = BilinearScore{0, 0, std::nullopt};
            }),
            "inputs[0].shape");
  EXPECT_EQ(field([](Call& c) {
              c.args.q = Described({1, 1, 0, 1 << 24});
              c.args.k = Described({1, 1, 0, 1 << 24});
              c.args.v = Described({1, 1, 0, 1 << 24});
              c.spec.normalizer = LinearNormalizer{};
            }),
            "k.shape");
  EXPECT_EQ(field([](Call& c) {
              c.args.q = Described({1, 1 << 28, 0, 1 << 20});
              c.args.k = Described({1, 1, 0, 1 << 20});
              c.args.v = Described({1, 1, 0, 1 << 20});
              c.spec.normalizer = LinearNormalizer{};
            }),
            "k.shape");
}

// Token rows of a layer that reads nothing and makes much of it.
TEST(ProblemTest, AProjectionWithoutInputsIsBoundedByItsRows) {
  Call call = GoodCall();
  ProjectionSpec projections;
  projections.q_heads = 1;
  projections.query = projections.key = projections.value =
      LinearLayer{0, std::nullopt};
  call.spec.projections = projections;
  call.args.q = call.args.k = call.args.v = Described({1, 1 << 14, 0});
  call.args.q_lengths = call.args.kv_lengths = {};
  call.args.inputs = {Described({int64_t{1} << 36, 0})};
  EXPECT_EQ(FieldOf(call.Make().status()), "q.shape");
  call.args.inputs = {Described({int64_t{1} << 60, 0})};
  EXPECT_EQ(FieldOf(call.Make().status()), "inputs[0].shape");
}

TEST(ProblemTest, LargeCallsWithinTheBoundsAreTaken) {
  Call call = GoodCall();
  call.args.q = Described({1, 128, 1 << 20, 256});
  call.args.k = Described({1, 8, 1 << 20, 256});
  call.args.v = Described({1, 8, 1 << 20, 256});
  call.args.q_lengths = call.args.kv_lengths = {};
  EXPECT_TRUE(call.Make().ok()) << call.Make().status();
}

TEST(ProblemTest, LengthsAreDataButTheirPresenceIsNot) {
  Call with = GoodCall();
  with.args.kv_lengths = {3, 4};
  Call other = GoodCall();
  other.args.kv_lengths = {7, 0};
  EXPECT_EQ(*with.Make(), *other.Make());
  EXPECT_FALSE(*with.Make() == *GoodCall().Make());
}

TEST(ProblemTest, EqualProblemsHashEqualAndOthersApart) {
  std::vector<Problem> problems = {*GoodCall().Make()};
  const auto add = [&problems](const std::function<void(Problem&)>& change) {
    problems.push_back(problems.front());
    change(problems.back());
  };
  add([](Problem& p) { p.spec.softcap = 30; });
  add([](Problem& p) { p.shape.q_length = 6; });
  add([](Problem& p) { p.dtype = DType::kF16; });
  add([](Problem& p) { p.output_dtype = DType::kF16; });
  add([](Problem& p) { p.inputs = {{DType::kF32, Shape({7})}}; });
  add([](Problem& p) { p.inputs = {{DType::kF32, Shape({1, 7})}}; });
  add([](Problem& p) { p.has_q_lengths = true; });
  add([](Problem& p) { p.has_kv_lengths = true; });
  add([](Problem& p) { p.kv_dtype = DType::kI8; });
  add([](Problem& p) { p.k_is_matrix = false; });
  add([](Problem& p) { p.ragged = true; });
  add([](Problem& p) { p.counts_f16_overflows = true; });
  add([](Problem& p) { p.q_rows = 9; });
  add([](Problem& p) { p.kv_rows = 9; });
  add([](Problem& p) { p.outputs.logits = true; });
  add([](Problem& p) { p.outputs.masked_logits = true; });
  add([](Problem& p) { p.outputs.weights = true; });
  add([](Problem& p) { p.outputs.output = false; });
  add([](Problem& p) { p.kernel = "reference"; });
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(problems));
  for (size_t i = 0; i < problems.size(); ++i) {
    for (size_t j = 0; j < problems.size(); ++j) {
      EXPECT_EQ(problems[i] == problems[j], i == j) << i << " and " << j;
    }
  }
}

}  // namespace
}  // namespace attn
