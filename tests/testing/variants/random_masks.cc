#include <algorithm>

#include "tests/testing/variants/formulas.h"
#include "tests/testing/variants/random_variant.h"

namespace attn::oracle {
namespace {

bool Chance(Random& random) { return Below(random, 2) == 0; }

Parameter RandomBools(Random& random, std::vector<int64_t> shape,
                      bool by_batch) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  Parameter mask{DType::kBool, std::move(shape), {}, by_batch};
  for (int64_t i = 0; i < count; ++i) {
    mask.data.push_back(Below(random, 10) < 7 ? 1 : 0);
  }
  return mask;
}

// A few positions in [0, Sk).
std::vector<int64_t> RandomTokens(Random& random, const VariantCase& call) {
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < call.shape.kv_length; ++j) {
    if (Below(random, 6) == 0) tokens.push_back(j);
  }
  if (tokens.empty()) tokens.push_back(0);
  return tokens;
}

template <typename Mask>
Mask Aligned(Random& random, const VariantCase& call) {
  Mask mask;
  mask.alignment = RandomAlignment(random, call);
  return mask;
}

void AddCausal(Random& random, VariantCase& call) {
  call.spec.masks.emplace_back(Aligned<CausalMask>(random, call));
}

void AddWindow(Random& random, VariantCase& call) {
  auto mask = Aligned<WindowMask>(random, call);
  mask.left = Below(random, call.shape.kv_length + 2);
  if (Chance(random)) mask.right = Below(random, 4);
  call.spec.masks.emplace_back(mask);
}

void AddDense(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  std::vector<int64_t> shape = {s.batch, s.q_heads, s.q_length, s.kv_length};
  bool by_batch = true;
  if (Chance(random)) shape[1] = 1;
  if (Chance(random)) shape[2] = 1;
  if (Chance(random)) {
    shape.erase(shape.begin());
    by_batch = false;
  }
  call.spec.masks.emplace_back(
      DenseMask{call.Add(RandomBools(random, shape, by_batch))});
}

void AddPrefix(Random& random, VariantCase& call) {
  auto mask = Aligned<PrefixMask>(random, call);
  const int64_t count = Chance(random) ? 1 : call.shape.batch;
  for (int64_t b = 0; b < count; ++b) {
    mask.prefix.push_back(Below(random, call.shape.kv_length + 1));
  }
  call.spec.masks.emplace_back(mask);
}

Parameter RandomSegments(Random& random, int64_t batch, int64_t length) {
  Parameter segments{DType::kI32, {batch, length}, {}, true};
  for (int64_t i = 0; i < batch * length; ++i) {
    segments.data.push_back(static_cast<double>(Below(random, 3)));
  }
  return segments;
}

void AddSegment(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  SegmentMask mask;
  mask.q_segments = call.Add(RandomSegments(random, s.batch, s.q_length));
  mask.kv_segments = call.Add(RandomSegments(random, s.batch, s.kv_length));
  call.spec.masks.emplace_back(mask);
}

void AddBlockSparse(Random& random, VariantCase& call) {
  const AttentionShape& s = call.shape;
  BlockSparseMask mask;
  mask.q_block = 1 + Below(random, 5);
  mask.kv_block = 1 + Below(random, 5);
  std::vector<int64_t> shape = {
      (s.q_length + mask.q_block - 1) / mask.q_block,
      (s.kv_length + mask.kv_block - 1) / mask.kv_block};
  bool by_batch = false;
  if (Chance(random)) {
    shape.insert(shape.begin(), s.q_heads);
    by_batch = Chance(random);
    if (by_batch) shape.insert(shape.begin(), s.batch);
  }
  mask.layout = call.Add(RandomBools(random, shape, by_batch));
  call.spec.masks.emplace_back(mask);
}

void AddGlobal(Random& random, VariantCase& call) {
  auto mask = Aligned<GlobalMask>(random, call);
  mask.tokens = RandomTokens(random, call);
  call.spec.masks.emplace_back(mask);
}

void AddDilated(Random& random, VariantCase& call) {
  auto mask = Aligned<DilatedMask>(random, call);
  mask.dilation = 1 + Below(random, 4);
  if (Chance(random)) mask.radius = Below(random, 12);
  call.spec.masks.emplace_back(mask);
}

void AddStrided(Random& random, VariantCase& call) {
  auto mask = Aligned<StridedMask>(random, call);
  mask.stride = 1 + Below(random, 5);
  call.spec.masks.emplace_back(mask);
}

void AddFixed(Random& random, VariantCase& call) {
  auto mask = Aligned<FixedMask>(random, call);
  mask.stride = 1 + Below(random, 5);
  mask.summary = 1 + Below(random, mask.stride);
  call.spec.masks.emplace_back(mask);
}

void AddBigBird(Random& random, VariantCase& call) {
  BigBirdMask mask;
  mask.block = 1 + Below(random, 4);
  mask.window_blocks = Chance(random) ? 1 : 3;
  mask.global_blocks = Below(random, 2);
  mask.random_blocks = Below(random, 3);
  mask.seed = random();
  call.spec.masks.emplace_back(mask);
}

void AddLongformer(Random& random, VariantCase& call) {
  auto mask = Aligned<LongformerMask>(random, call);
  mask.radius = Below(random, 8);
  mask.global_tokens = RandomTokens(random, call);
  call.spec.masks.emplace_back(mask);
}

void AddStreaming(Random& random, VariantCase& call) {
  auto mask = Aligned<StreamingMask>(random, call);
  mask.sinks = Below(random, 5);
  mask.left = Below(random, 8);
  call.spec.masks.emplace_back(mask);
}

void AddAnyOf(Random& random, VariantCase& call) {
  VariantCase parts = call;
  parts.spec.masks.clear();
  AddCausal(random, parts);
  AddDilated(random, parts);
  if (Chance(random)) AddDense(random, parts);
  AnyOfMask any;
  any.masks = parts.spec.masks;
  call.inputs = parts.inputs;
  call.spec.masks.emplace_back(any);
}

void AddProgram(Random& random, VariantCase& call) {
  const std::vector<std::string>& sources = MaskPrograms();
  ProgramSpec program;
  program.source = sources[static_cast<size_t>(
      Below(random, static_cast<int64_t>(sources.size())))];
  if (program.source.find("t[") != std::string::npos) {
    program.tables.push_back(
        {"t", call.Add(NormalParameter(random, {call.shape.q_heads}))});
  }
  call.spec.masks.emplace_back(ProgramMask{program});
}

}  // namespace

std::vector<MemberGenerator> MaskGenerators() {
  return {{"causal", AddCausal},       {"window", AddWindow},
          {"dense", AddDense},         {"prefix", AddPrefix},
          {"segment", AddSegment},     {"block_sparse", AddBlockSparse},
          {"global", AddGlobal},       {"dilated", AddDilated},
          {"strided", AddStrided},     {"fixed", AddFixed},
          {"big_bird", AddBigBird},    {"longformer", AddLongformer},
          {"streaming", AddStreaming}, {"any_of", AddAnyOf},
          {"program", AddProgram}};
}

}  // namespace attn::oracle
