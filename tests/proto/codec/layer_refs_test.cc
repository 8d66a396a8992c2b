#include "proto/codec/layer_refs.h"

#include <string>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

void Point(v1::TensorRef& ref, const std::string& layer,
           const std::string& tensor) {
  ref.mutable_layer()->set_layer(layer);
  ref.mutable_layer()->set_tensor(tensor);
}

TEST(LayerRefsTest, EachTensorBecomesAnInputBehindThoseOfTheRequest) {
  v1::AttentionSpec spec;
  v1::AdditiveScore& additive = *spec.mutable_score()->mutable_additive();
  Point(*additive.mutable_query_weight(), "a", "w");
  additive.mutable_key_weight()->set_input(1);
  Point(*additive.mutable_v(), "a", "v");
  Point(*spec.add_biases()->mutable_dense()->mutable_tensor(), "b", "w");
  v1::Mask& part = *spec.add_masks()->mutable_any_of()->add_masks();
  Point(*part.mutable_dense()->mutable_tensor(), "a", "w");
  const auto found = TakeLayerReferences(spec, 2, "spec");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_THAT(*found, SizeIs(3));
  EXPECT_EQ(spec.score().additive().key_weight().input(), 1u);
  EXPECT_TRUE(DecodeSpec(spec).ok());
  // Every reference points to what it named.
  const auto name = [&found](const v1::TensorRef& ref) {
    const LayerReference& at = (*found)[ref.input() - 2];
    return at.layer + "/" + at.tensor;
  };
  EXPECT_EQ(name(spec.score().additive().query_weight()), "a/w");
  EXPECT_EQ(name(spec.score().additive().v()), "a/v");
  EXPECT_EQ(name(spec.biases(0).dense().tensor()), "b/w");
  EXPECT_EQ(name(spec.masks(0).any_of().masks(0).dense().tensor()), "a/w");
}

TEST(LayerRefsTest, ASpecWithoutLayersStaysAsItIs) {
  v1::AttentionSpec spec;
  spec.add_biases()->mutable_dense()->mutable_tensor()->set_input(0);
  const v1::AttentionSpec before = spec;
  const auto found = TakeLayerReferences(spec, 1, "spec");
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, IsEmpty());
  EXPECT_EQ(spec.SerializeAsString(), before.SerializeAsString());
}

TEST(LayerRefsTest, AFieldIsNamedByItsPath) {
  v1::AttentionSpec spec;
  spec.add_biases();
  Point(*spec.add_biases()->mutable_dense()->mutable_tensor(), "a", "w");
  const auto found = TakeLayerReferences(spec, 0, "spec");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)[0].field, "spec.biases[1].dense.tensor.layer");
  Point(*spec.mutable_head_gate(), "", "w");
  EXPECT_EQ(FieldOf(TakeLayerReferences(spec, 0, "spec").status()),
            "spec.head_gate.layer.layer");
}

}  // namespace
}  // namespace attn
