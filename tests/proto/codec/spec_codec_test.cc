#include "proto/codec/spec_codec.h"

#include <variant>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/proto/codec/random_spec.h"

namespace attn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Words(const absl::Status& status) {
  return std::string(status.message());
}

std::string FieldOfDecoding(const v1::AttentionSpec& message) {
  return FieldOf(DecodeSpec(message).status()).value_or("");
}

TEST(SpecCodec, AnEmptySpecIsScaledDotProductWithSoftmax) {
  const auto spec = DecodeSpec(v1::AttentionSpec());
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(*spec, AttentionSpec());
  EXPECT_FALSE(std::get<DotScore>(spec->score).scale.has_value());
  EXPECT_TRUE(std::holds_alternative<SoftmaxNormalizer>(spec->normalizer));
}

TEST(SpecCodec, EveryFieldArrives) {
  v1::AttentionSpec message;
  message.mutable_score()->mutable_dot()->set_scale(0);
  message.set_softcap(30);
  message.add_biases()->mutable_dense()->mutable_tensor()->set_input(7);
  message.add_biases()->mutable_alibi()->add_slopes(0.5);
  message.add_masks()->mutable_causal()->set_alignment(
      v1::ALIGNMENT_BOTTOM_RIGHT);
  v1::WindowMask& window = *message.add_masks()->mutable_window();
  window.set_left(0);
  window.set_alignment(v1::ALIGNMENT_TOP_LEFT);
  message.add_masks()->mutable_dense()->mutable_tensor()->set_input(0);
  message.add_temperatures(2);
  message.add_temperatures(3);
  message.mutable_normalizer()->mutable_softmax();

  const auto spec = DecodeSpec(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  AttentionSpec expected;
  expected.score = DotScore{.scale = 0.0, .learned_scale = std::nullopt};
  expected.softcap = 30;
  expected.biases = {DenseBias{.input = 7}, AlibiBias{.slopes = {0.5}}};
  expected.masks = {
      CausalMask{Alignment::kBottomRight},
      WindowMask{
          .left = 0, .right = std::nullopt, .alignment = Alignment::kTopLeft},
      DenseMask{.input = 0}};
  expected.temperatures = {2, 3};
  EXPECT_EQ(*spec, expected);
}

void ExpectRoundTrip(const AttentionSpec& spec) {
  v1::AttentionSpec message;
  ASSERT_TRUE(message.ParseFromString(EncodeSpec(spec).SerializeAsString()));
  const auto decoded = DecodeSpec(message);
  ASSERT_TRUE(decoded.ok()) << decoded.status() << message.DebugString();
  ASSERT_EQ(*decoded, spec) << message.DebugString();
}

TEST(SpecCodec, DecodeUndoesEncode) {
  RandomSpec specs(1);
  for (int i = 0; i < 1000; ++i) ExpectRoundTrip(specs.Draw());
}

TEST(SpecCodec, DecodeUndoesEncodeForEveryMember) {
  RandomSpec specs(2);
  constexpr int kDraws = 20;
  const auto each = [&](size_t members, auto put) {
    for (size_t member = 0; member < members; ++member) {
      for (int i = 0; i < kDraws; ++i) {
        AttentionSpec spec;
        put(member, spec);
        ExpectRoundTrip(spec);
      }
    }
  };
  each(std::variant_size_v<ScoreSpec>, [&](size_t i, AttentionSpec& spec) {
    spec.score = specs.Score(i);
    EXPECT_EQ(spec.score.index(), i);
  });
  each(std::variant_size_v<BiasSpec>, [&](size_t i, AttentionSpec& spec) {
    spec.biases = {specs.Bias(i)};
    EXPECT_EQ(spec.biases[0].index(), i);
  });
  each(std::variant_size_v<MaskSpec::variant>,
       [&](size_t i, AttentionSpec& spec) {
         spec.masks = {specs.Mask(i)};
         EXPECT_EQ(spec.masks[0].index(), i);
       });
  each(std::variant_size_v<NormalizerSpec>, [&](size_t i, AttentionSpec& spec) {
    spec.normalizer = specs.Normalizer(i);
    EXPECT_EQ(spec.normalizer.index(), i);
  });
  each(std::variant_size_v<SparsifierSpec>, [&](size_t i, AttentionSpec& spec) {
    spec.sparsifiers = {specs.Sparsifier(i)};
    EXPECT_EQ(spec.sparsifiers[0].index(), i);
  });
  each(std::variant_size_v<TransformSpec>, [&](size_t i, AttentionSpec& spec) {
    spec.transforms = {specs.Transform(i)};
    EXPECT_EQ(spec.transforms[0].index(), i);
  });
}

TEST(SpecCodec, AnUnsetKindNamesTheStageAndItsMembers) {
  v1::AttentionSpec message;
  message.add_masks()->mutable_causal();
  message.add_masks();
  const absl::Status status = DecodeSpec(message).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status).value_or(""), "spec.masks[1].kind");
  EXPECT_THAT(Words(status),
              AllOf(HasSubstr("nothing"), HasSubstr("causal, window, dense")));

  message.Clear();
  message.add_biases();
  EXPECT_EQ(FieldOfDecoding(message), "spec.biases[0].kind");
  message.Clear();
  message.mutable_score();
  EXPECT_EQ(FieldOfDecoding(message), "spec.score.kind");
  message.Clear();
  message.mutable_normalizer();
  EXPECT_EQ(FieldOfDecoding(message), "spec.normalizer.kind");
}

TEST(SpecCodec, AMemberOfANewerSchemaIsRefusedByItsNumber) {
  v1::AttentionSpec message;
  v1::Mask& mask = *message.add_masks();
  v1::Mask::GetReflection()->MutableUnknownFields(&mask)->AddLengthDelimited(
      77, "");
  const absl::Status status = DecodeSpec(message).status();
  EXPECT_EQ(FieldOf(status).value_or(""), "spec.masks[0].kind");
  EXPECT_THAT(Words(status), HasSubstr("unknown member, field 77"));
}

TEST(SpecCodec, AReferenceToNothingNamesTheTensor) {
  v1::AttentionSpec message;
  message.add_biases()->mutable_dense();
  EXPECT_EQ(FieldOfDecoding(message), "spec.biases[0].dense.tensor");
  message.mutable_biases(0)->mutable_dense()->mutable_tensor();
  EXPECT_EQ(FieldOfDecoding(message), "spec.biases[0].dense.tensor");
  message.Clear();
  message.add_masks()->mutable_dense();
  EXPECT_EQ(FieldOfDecoding(message), "spec.masks[0].dense.tensor");
}

TEST(SpecCodec, AnUnknownAlignmentIsRefusedNotGuessed) {
  v1::AttentionSpec message;
  message.add_masks()->mutable_causal()->set_alignment(
      static_cast<v1::Alignment>(3));
  const absl::Status status = DecodeSpec(message).status();
  EXPECT_EQ(FieldOf(status).value_or(""), "spec.masks[0].causal.alignment");
  EXPECT_THAT(Words(status),
              AllOf(HasSubstr("got 3"), HasSubstr("ALIGNMENT_BOTTOM_RIGHT")));
  message.Clear();
  message.add_masks()->mutable_window()->set_alignment(
      static_cast<v1::Alignment>(-1));
  EXPECT_EQ(FieldOfDecoding(message), "spec.masks[0].window.alignment");
}

TEST(SpecCodec, AnUnspecifiedAlignmentIsLeftToTheEngine) {
  v1::AttentionSpec message;
  message.add_masks()->mutable_causal();
  const auto spec = DecodeSpec(message);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(std::get<CausalMask>(spec->masks[0]).alignment,
            Alignment::kUnspecified);
}

TEST(SpecCodec, EveryDTypeOfTheSchemaIsOneOfTheEngine) {
  const auto* type = v1::DataType_descriptor();
  for (int i = 0; i < type->value_count(); ++i) {
    const auto wire = static_cast<v1::DataType>(type->value(i)->number());
    if (wire == v1::DATA_TYPE_UNSPECIFIED) continue;
    const auto dtype = DecodeDType(wire, "q.dtype");
    ASSERT_TRUE(dtype.ok()) << dtype.status();
    EXPECT_EQ("DATA_TYPE_" + std::string(Name(*dtype)), type->value(i)->name());
    EXPECT_EQ(EncodeDType(*dtype), wire);
  }
}

TEST(SpecCodec, NoDTypeAndAnUnknownOneAreRefused) {
  const absl::Status none =
      DecodeDType(v1::DATA_TYPE_UNSPECIFIED, "q.dtype").status();
  EXPECT_EQ(FieldOf(none).value_or(""), "q.dtype");
  EXPECT_THAT(Words(none), AllOf(HasSubstr("got DATA_TYPE_UNSPECIFIED"),
                                 HasSubstr("one of DATA_TYPE_F32")));
  const absl::Status unknown =
      DecodeDType(static_cast<v1::DataType>(99), "k.dtype").status();
  EXPECT_EQ(FieldOf(unknown).value_or(""), "k.dtype");
  EXPECT_THAT(Words(unknown), HasSubstr("got 99"));
}

TEST(SpecCodec, LatentProjectionsGoThereAndBack) {
  RandomSpec random(17);
  for (int i = 0; i < 50; ++i) {
    AttentionSpec spec;
    spec.projections.emplace().q_heads = 4;
    spec.projections->latent = random.Latent();
    const auto back = DecodeSpec(EncodeSpec(spec));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, spec);
  }
}

TEST(SpecCodec, ALayerWithoutAWeightIsNamed) {
  v1::AttentionSpec message;
  message.mutable_projections()->mutable_query();
  EXPECT_EQ(FieldOfDecoding(message), "spec.projections.query.weight");
  v1::AttentionSpec latent;
  latent.mutable_projections()->mutable_latent();
  EXPECT_EQ(FieldOfDecoding(latent), "spec.projections.latent.query_up.weight");
}

}  // namespace
}  // namespace attn
