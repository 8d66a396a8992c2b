// One stage of a spec on the wire: what spec_codec.h is made of.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/attention_spec.h"
#include "proto/codec/schema.h"

namespace attn {

// `field` is the stage's path, e.g. "spec.biases[0]". INVALID_ARGUMENT names a
// field below it.
absl::StatusOr<TransformSpec> DecodeTransform(const v1::Transform& message,
                                              const std::string& field);
absl::StatusOr<ScoreSpec> DecodeScore(const v1::Score& message,
                                      const std::string& field);
absl::StatusOr<BiasSpec> DecodeBias(const v1::Bias& message,
                                    const std::string& field);
absl::StatusOr<MaskSpec> DecodeMask(const v1::Mask& message,
                                    const std::string& field);
absl::StatusOr<SparsifierSpec> DecodeSparsifier(const v1::Sparsifier& message,
                                                const std::string& field);
absl::StatusOr<NormalizerSpec> DecodeNormalizer(const v1::Normalizer& message,
                                                const std::string& field);
absl::StatusOr<ProgramSpec> DecodeProgram(const v1::Program& message,
                                          const std::string& field);
absl::StatusOr<ProjectionSpec> DecodeProjections(const v1::Projections& message,
                                                 const std::string& field);

v1::Transform EncodeTransform(const TransformSpec& spec);
v1::Score EncodeScore(const ScoreSpec& spec);
v1::Bias EncodeBias(const BiasSpec& spec);
v1::Mask EncodeMask(const MaskSpec& spec);
v1::Sparsifier EncodeSparsifier(const SparsifierSpec& spec);
v1::Normalizer EncodeNormalizer(const NormalizerSpec& spec);
v1::Program EncodeProgram(const ProgramSpec& spec);
v1::Projections EncodeProjections(const ProjectionSpec& spec);

}  // namespace attn
