#include "tests/testing/variants/random_variant.h"

#include <algorithm>
#include <iterator>

#include "tests/testing/small_float.h"
#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

template <typename T, size_t kCount>
T OneOf(Random& random, const T (&values)[kCount]) {
  return values[Below(random, kCount)];
}

bool OneIn(Random& random, int64_t n) { return Below(random, n) == 0; }

double Rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return Decode(Encode(value, kBinary16), kBinary16);
    case DType::kBF16:
      return Decode(Encode(value, kBFloat16), kBFloat16);
    case DType::kF64:
      return value;
    default:
      return static_cast<double>(static_cast<float>(value));
  }
}

ProgramSpec RandomProgram(Random& random, VariantCase& call,
                          const std::vector<std::string>& sources) {
  ProgramSpec program;
  program.source = sources[static_cast<size_t>(
      Below(random, static_cast<int64_t>(sources.size())))];
  if (program.source.find("t[") != std::string::npos) {
    program.tables.push_back(
        {"t", call.Add(NormalParameter(random, {call.shape.q_heads}))});
  }
  return program;
}

void AddScoreProgram(Random& random, VariantCase& call) {
  call.spec.score_program = RandomProgram(random, call, ScorePrograms());
}

void AddWeightProgram(Random& random, VariantCase& call) {
  call.spec.weight_program = RandomProgram(random, call, WeightPrograms());
}

void AddDropout(Random& random, VariantCase& call) {
  DropoutSpec dropout;
  dropout.p = OneOf(random, {0.1, 0.5});
  dropout.seed = random();
  dropout.renormalize = OneIn(random, 3);
  if (OneIn(random, 3)) {
    const AttentionShape& s = call.shape;
    Parameter keep{
        DType::kBool, {s.batch, s.q_heads, s.q_length, s.kv_length}, {}, true};
    const int64_t count = s.batch * s.q_heads * s.q_length * s.kv_length;
    for (int64_t i = 0; i < count; ++i) {
      keep.data.push_back(OneIn(random, 4) ? 0 : 1);
    }
    dropout.keep = call.Add(std::move(keep));
  }
  call.spec.dropout = dropout;
}

void AddHeadGate(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  if (OneIn(random, 2)) {
    call.spec.head_gate = call.Add(NormalParameter(random, {s.q_heads}));
    return;
  }
  Parameter gate = NormalParameter(random, {s.batch, s.q_heads, s.q_length});
  gate.by_batch = true;
  call.spec.head_gate = call.Add(std::move(gate));
}

// A member of the stage, or null.
const MemberGenerator& AnyOf(Random& random, const std::string& stage) {
  for (const StageGenerators& generators : Generators()) {
    if (stage != generators.stage) continue;
    const auto count = static_cast<int64_t>(generators.members.size());
    return generators.members[static_cast<size_t>(Below(random, count))];
  }
  static const MemberGenerator kNone{"", nullptr};
  return kNone;
}

}  // namespace

const std::vector<StageGenerators>& Generators() {
  static const auto& kGenerators = *new std::vector<StageGenerators>{
      {"transform", TransformGenerators()},
      {"score", ScoreGenerators()},
      {"bias", BiasGenerators()},
      {"score_program", {{"program", AddScoreProgram}}},
      {"mask", MaskGenerators()},
      {"sparsifier", SparsifierGenerators()},
      {"normalizer", NormalizerGenerators()},
      {"weight_program", {{"program", AddWeightProgram}}},
      {"dropout", {{"dropout", AddDropout}}},
      {"head_gate", {{"head_gate", AddHeadGate}}},
  };
  return kGenerators;
}

const MemberGenerator* FindGenerator(const std::string& stage,
                                     const std::string& member) {
  for (const StageGenerators& generators : Generators()) {
    if (stage != generators.stage) continue;
    for (const MemberGenerator& generator : generators.members) {
      if (member == generator.name) return &generator;
    }
  }
  return nullptr;
}

AttentionShape RandomShape(Random& random) {
  AttentionShape shape;
  shape.kv_heads = OneOf(random, {1, 1, 2});
  shape.q_heads = shape.kv_heads * OneOf(random, {1, 4, 8});
  shape.batch = shape.q_heads > 8 ? 1 : OneOf(random, {1, 2, 3});
  shape.q_length = OneOf(random, {1, 2, 5, 17});
  shape.kv_length = OneOf(random, {1, 3, 17, 33});
  // More rows than a block of any kernel holds.
  if (shape.batch * shape.q_heads == 1) {
    shape.q_length = OneOf(random, {17, 70});
    shape.kv_length = OneOf(random, {17, 70, 130});
  }
  shape.k_dim = OneOf(random, {1, 8, 33, 65, 192});
  shape.q_dim = shape.k_dim;
  shape.v_dim = OneIn(random, 2) ? shape.k_dim : OneOf(random, {1, 16, 33});
  return shape;
}

AttentionShape RandomLongShape(Random& random) {
  AttentionShape shape;
  shape.batch = 1;
  shape.kv_heads = 1;
  shape.q_heads = OneOf(random, {1, 2});
  shape.q_length = OneOf(random, {1, 3, 18});
  shape.kv_length = OneOf(random, {513, 700, 1027});
  shape.k_dim = OneOf(random, {4, 9});
  shape.q_dim = shape.k_dim;
  shape.v_dim = OneOf(random, {4, 17});
  return shape;
}

void AddLengths(Random& random, VariantCase& call) {
  for (int64_t b = 0; b < call.shape.batch; ++b) {
    call.q_lengths.push_back(Below(random, call.shape.q_length + 1));
    call.kv_lengths.push_back(Below(random, call.shape.kv_length + 1));
  }
}

void FillTensors(Random& random, VariantCase& call, DType dtype) {
  const AttentionShape& s = call.shape;
  call.q = Normal(random, s.batch * s.q_heads * s.q_length * s.q_dim);
  call.k = Normal(random, s.batch * s.kv_heads * s.kv_length * s.k_dim);
  call.v = Normal(random, s.batch * s.kv_heads * s.kv_length * s.v_dim);
  for (std::vector<double>* values : {&call.q, &call.k, &call.v}) {
    for (double& value : *values) value = Rounded(value, dtype);
  }
}

Parameter NormalParameter(Random& random, std::vector<int64_t> shape,
                          double size) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  Parameter parameter{DType::kF32, std::move(shape), Normal(random, count),
                      false};
  for (double& value : parameter.data) {
    value = Rounded(value * size, DType::kF32);
  }
  return parameter;
}

Alignment RandomAlignment(Random& random, const VariantCase& call) {
  const bool square =
      call.kv_lengths.empty() && call.shape.q_length == call.shape.kv_length;
  if (square && OneIn(random, 3)) return Alignment::kUnspecified;
  return OneIn(random, 3) ? Alignment::kTopLeft : Alignment::kBottomRight;
}

VariantCase RandomVariant(Random& random, DType dtype) {
  std::vector<const MemberGenerator*> chosen;
  const auto take = [&](const char* stage, int64_t one_in) {
    if (OneIn(random, one_in)) chosen.push_back(&AnyOf(random, stage));
  };
  const MemberGenerator& normalizer = AnyOf(random, "normalizer");
  take("transform", 3);
  if (std::string(normalizer.name) != "linear") {
    take("score", 1);
    take("bias", 2);
    take("bias", 4);
    take("score_program", 5);
    take("mask", 2);
    take("mask", 4);
    take("sparsifier", 4);
    take("weight_program", 6);
    take("dropout", 6);
  }
  chosen.push_back(&normalizer);
  take("head_gate", 5);

  VariantCase call;
  call.shape =
      OneIn(random, 12) ? RandomLongShape(random) : RandomShape(random);
  for (const MemberGenerator* generator : chosen) {
    if (generator->fit != nullptr) generator->fit(call.shape);
  }
  if (OneIn(random, 3)) AddLengths(random, call);
  FillTensors(random, call, dtype);
  for (const MemberGenerator* generator : chosen) generator->add(random, call);
  if (std::string(normalizer.name) == "linear") return call;
  if (OneIn(random, 4)) call.spec.softcap = OneOf(random, {0.7, 5.0});
  if (OneIn(random, 4)) call.spec.temperatures = {OneOf(random, {0.5, 2.0})};
  return call;
}

}  // namespace attn::oracle
