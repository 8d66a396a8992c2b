#include "tests/proto/codec/random_spec.h"

#include <utility>

namespace attn {
namespace {

constexpr int kMasks = static_cast<int>(std::variant_size_v<MaskSpec::variant>);

}  // namespace

AttentionSpec RandomSpec::Draw() {
  AttentionSpec spec;
  for (int i = Below(3); i > 0; --i) {
    spec.transforms.push_back(Transform(AnyOf<TransformSpec>()));
  }
  spec.score = Score(AnyOf<ScoreSpec>());
  spec.softcap = MaybeNumber();
  for (int i = Below(4); i > 0; --i) {
    spec.biases.push_back(Bias(AnyOf<BiasSpec>()));
  }
  if (Coin()) spec.score_program = Program();
  for (int i = Below(4); i > 0; --i) {
    spec.masks.push_back(Mask(static_cast<size_t>(Below(kMasks))));
  }
  for (int i = Below(4); i > 0; --i) spec.temperatures.push_back(Number());
  for (int i = Below(3); i > 0; --i) {
    spec.sparsifiers.push_back(Sparsifier(AnyOf<SparsifierSpec>()));
  }
  spec.normalizer = Normalizer(AnyOf<NormalizerSpec>());
  if (Coin()) spec.weight_program = Program();
  if (Coin()) {
    spec.dropout = DropoutSpec{.p = Number(),
                               .seed = uint64_t{random_()} << Below(32),
                               .renormalize = Coin(),
                               .keep = MaybeRef()};
  }
  spec.head_gate = MaybeRef();
  if (Coin()) {
    spec.kv_quantization = KvQuantization{
        static_cast<QuantizationGranularity>(1 + Below(3)), Ref(), Ref()};
  }
  if (Coin()) spec.projections = Projections();
  return spec;
}

LinearLayer RandomSpec::Layer() { return {Ref(), MaybeRef()}; }

ProjectionSpec RandomSpec::Projections() {
  ProjectionSpec spec;
  if (Coin()) spec.query = Layer();
  if (Coin()) spec.key = Layer();
  if (Coin()) spec.value = Layer();
  if (Coin()) spec.output = Layer();
  spec.q_heads = Below(9);
  if (Coin()) spec.kv_heads = Below(9);
  return spec;
}

LatentProjection RandomSpec::Latent() {
  LatentProjection latent;
  if (Coin()) latent.query_down = Layer();
  latent.query_norm = MaybeRef();
  latent.query_up = Layer();
  latent.kv_down = Layer();
  latent.kv_norm = MaybeRef();
  latent.kv_up = Layer();
  latent.plain_dim = Below(9);
  latent.rotary = std::get<RotaryTransform>(Rotary());
  latent.eps = Number();
  return latent;
}

ScoreSpec RandomSpec::Score(size_t index) {
  switch (index) {
    case 0:
      return DotScore{MaybeNumber(), MaybeScale()};
    case 1:
      return BilinearScore{Ref(), Number(), MaybeNumber()};
    case 2:
      return AdditiveScore{MaybeRef(),
                           MaybeRef(),
                           MaybeRef(),
                           Ref(),
                           OneOf(Activation::kIdentity),
                           Number()};
    case 3:
      return ConcatScore{Ref(), Ref(), OneOf(Activation::kIdentity)};
    case 4:
      return TrilinearScore{Ref(), Number()};
    case 5:
      return CosineScore{MaybeNumber(), MaybeScale(), Number()};
    default:
      return DistanceScore{OneOf(Distance::kL2), MaybeNumber()};
  }
}

BiasSpec RandomSpec::Bias(size_t index) {
  switch (index) {
    case 0:
      return DenseBias{Ref()};
    case 1: {
      AlibiBias bias;
      for (int i = Below(4); i > 0; --i) bias.slopes.push_back(Number());
      return bias;
    }
    case 2:
      return RelativeTableBias{Ref()};
    case 3:
      return T5Bias{Ref(), Coin(), Integer()};
    case 4:
      return ContinuousPositionBias{Integer(), Integer(), Ref(), Ref(), Ref()};
    default:
      return ConstantBias{Ref()};
  }
}

MaskSpec RandomSpec::Mask(size_t index) {
  const Alignment alignment = AnyAlignment();
  switch (index) {
    case 0:
      return CausalMask{alignment};
    case 1:
      return WindowMask{MaybeInteger(), MaybeInteger(), alignment};
    case 2:
      return DenseMask{Ref()};
    case 3:
      return PrefixMask{Integers(), alignment};
    case 4:
      return SegmentMask{Ref(), Ref()};
    case 6:
      return GlobalMask{Integers(), alignment};
    case 7:
      return DilatedMask{Integer(), MaybeInteger(), alignment};
    case 8:
      return StridedMask{Integer(), alignment};
    case 9:
      return FixedMask{Integer(), Integer(), alignment};
    case 11:
      return LongformerMask{Integer(), Integers(), alignment};
    case 12:
      return StreamingMask{Integer(), Integer(), alignment};
    case 14:
      return ProgramMask{Program()};
    default:
      return BlockMask(index);
  }
}

MaskSpec RandomSpec::BlockMask(size_t index) {
  constexpr size_t kBlockSparse = 5;
  constexpr size_t kBigBird = 10;
  if (index == kBlockSparse)
    return BlockSparseMask{Ref(), Integer(), Integer()};
  if (index == kBigBird) {
    return BigBirdMask{Integer(), Integer(), Integer(), Integer(), random_()};
  }
  // Two deep at the most: masks of one kind, and one of another.
  AnyOfMask mask;
  mask.masks.push_back(Mask(0));
  for (int i = Below(3); i > 0; --i) {
    mask.masks.push_back(Mask(static_cast<size_t>(Below(4))));
  }
  return mask;
}

NormalizerSpec RandomSpec::Normalizer(size_t index) {
  switch (index) {
    case 0:
      return SoftmaxNormalizer{MaybeRef()};
    case 1:
      return SoftmaxPlusNormalizer{Number()};
    case 2:
      return SparsemaxNormalizer{};
    case 3:
      return EntmaxNormalizer{MaybeNumber(), MaybeRef()};
    case 4:
      return SigmoidNormalizer{Number(), OneOf(Divisor::kVisibleKeys)};
    case 5:
      return ReluNormalizer{Number(), OneOf(Divisor::kVisibleKeys)};
    case 6:
      return DivisiveNormalizer{Number()};
    case 7:
      return HardNormalizer{};
    case 8:
      return LocalNormalizer{Ref(), Ref(), Number()};
    case 9:
      return IdentityNormalizer{};
    default:
      return Linear();
  }
}

NormalizerSpec RandomSpec::Linear() {
  return LinearNormalizer{.feature_map = OneOf(FeatureMap::kExp),
                          .update_rule = OneOf(UpdateRule::kGatedDelta),
                          .bidirectional = Coin(),
                          .normalize = Coin(),
                          .eps = Number(),
                          .decay = MaybeRef(),
                          .beta = MaybeRef(),
                          .state = MaybeRef()};
}

SparsifierSpec RandomSpec::Sparsifier(size_t index) {
  switch (index) {
    case 0:
      return TopKSparsifier{Integer(), OneOf(TieRule::kKeepAll)};
    case 1:
      return ThresholdSparsifier{MaybeNumber(), MaybeNumber()};
    default:
      return TopPSparsifier{Number()};
  }
}

TransformSpec RandomSpec::Transform(size_t index) {
  if (index == 0) return Rotary();
  return NormTransform{OneOf(NormKind::kRms), OneOf(TransformTarget::kKey),
                       Number(), MaybeRef(), MaybeRef()};
}

TransformSpec RandomSpec::Rotary() {
  return RotaryTransform{.layout = OneOf(RotaryLayout::kHalfSplit),
                         .target = OneOf(TransformTarget::kKey),
                         .base = Number(),
                         .rotary_dim = MaybeInteger(),
                         .query_offset = Integer(),
                         .key_offset = Integer(),
                         .position_scale = Number(),
                         .query_positions = MaybeRef(),
                         .key_positions = MaybeRef(),
                         .cos = MaybeRef(),
                         .sin = MaybeRef()};
}

ProgramSpec RandomSpec::Program() {
  ProgramSpec program;
  program.source = std::string(static_cast<size_t>(Below(9)), 'q');
  for (int i = Below(3); i > 0; --i) {
    program.tables.push_back(
        {std::string(static_cast<size_t>(1 + Below(5)), 't'), Ref()});
  }
  return program;
}

int RandomSpec::Below(int bound) {
  return std::uniform_int_distribution<int>(0, bound - 1)(random_);
}

double RandomSpec::Number() {
  return std::normal_distribution<double>()(random_);
}

std::optional<uint32_t> RandomSpec::MaybeRef() {
  if (Coin()) return std::nullopt;
  return Ref();
}

std::optional<double> RandomSpec::MaybeNumber() {
  if (Coin()) return std::nullopt;
  return Number();
}

std::optional<int64_t> RandomSpec::MaybeInteger() {
  if (Coin()) return std::nullopt;
  return Coin() ? Integer() : int64_t{1} << Below(62);
}

std::optional<LearnedScale> RandomSpec::MaybeScale() {
  if (Coin()) return std::nullopt;
  return LearnedScale{Ref(), MaybeNumber()};
}

std::vector<int64_t> RandomSpec::Integers() {
  std::vector<int64_t> values;
  for (int i = Below(4); i > 0; --i) values.push_back(Integer());
  return values;
}

}  // namespace attn
