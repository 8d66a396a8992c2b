// Layers before the heads and after them.
#include "absl/strings/str_cat.h"
#include "proto/codec/encode_member.h"
#include "proto/codec/member_reader.h"
#include "proto/codec/stage_codec.h"

namespace attn {
namespace {

LinearLayer ReadLayer(const v1::LinearLayer& message, const char* name,
                      MemberReader& reader) {
  MemberReader part(absl::StrCat(reader.field(), ".", name));
  LinearLayer layer;
  layer.weight = part.Ref(message.has_weight(), message.weight(), "weight");
  layer.bias = part.OptionalRef(message.has_bias(), message.bias(), "bias");
  reader.Update(part.Done(0).status());
  return layer;
}

std::optional<LinearLayer> ReadOptionalLayer(bool present,
                                             const v1::LinearLayer& message,
                                             const char* name,
                                             MemberReader& reader) {
  if (!present) return std::nullopt;
  return ReadLayer(message, name, reader);
}

absl::StatusOr<LatentProjection> DecodeLatent(
    const v1::LatentProjection& message, const std::string& field) {
  MemberReader reader(field);
  LatentProjection latent;
  latent.query_down = ReadOptionalLayer(
      message.has_query_down(), message.query_down(), "query_down", reader);
  latent.query_norm = reader.OptionalRef(message.has_query_norm(),
                                         message.query_norm(), "query_norm");
  latent.query_up = ReadLayer(message.query_up(), "query_up", reader);
  latent.kv_down = ReadLayer(message.kv_down(), "kv_down", reader);
  latent.kv_norm =
      reader.OptionalRef(message.has_kv_norm(), message.kv_norm(), "kv_norm");
  latent.kv_up = ReadLayer(message.kv_up(), "kv_up", reader);
  latent.plain_dim = message.plain_dim();
  if (message.has_eps()) latent.eps = message.eps();
  // A transform's rotation, under another name.
  v1::Transform rotary;
  *rotary.mutable_rotary() = message.rotary();
  const auto transform = DecodeTransform(rotary, field);
  reader.Update(transform.status());
  if (transform.ok()) latent.rotary = std::get<RotaryTransform>(*transform);
  return reader.Done(latent);
}

void WriteLayer(const LinearLayer& layer, v1::LinearLayer& message) {
  message.mutable_weight()->set_input(layer.weight);
  EncodeRef(layer.bias, [&] { return message.mutable_bias(); });
}

void WriteLatent(const LatentProjection& latent,
                 v1::LatentProjection& message) {
  if (latent.query_down) {
    WriteLayer(*latent.query_down, *message.mutable_query_down());
  }
  EncodeRef(latent.query_norm, [&] { return message.mutable_query_norm(); });
  WriteLayer(latent.query_up, *message.mutable_query_up());
  WriteLayer(latent.kv_down, *message.mutable_kv_down());
  EncodeRef(latent.kv_norm, [&] { return message.mutable_kv_norm(); });
  WriteLayer(latent.kv_up, *message.mutable_kv_up());
  message.set_plain_dim(latent.plain_dim);
  *message.mutable_rotary() = EncodeTransform(latent.rotary).rotary();
  message.set_eps(latent.eps);
}

}  // namespace

absl::StatusOr<ProjectionSpec> DecodeProjections(const v1::Projections& message,
                                                 const std::string& field) {
  MemberReader reader(field);
  ProjectionSpec spec;
  spec.query =
      ReadOptionalLayer(message.has_query(), message.query(), "query", reader);
  spec.key = ReadOptionalLayer(message.has_key(), message.key(), "key", reader);
  spec.value =
      ReadOptionalLayer(message.has_value(), message.value(), "value", reader);
  spec.output = ReadOptionalLayer(message.has_output(), message.output(),
                                  "output", reader);
  spec.q_heads = message.q_heads();
  spec.kv_heads = Optional(message.has_kv_heads(), int64_t{message.kv_heads()});
  if (message.has_latent()) {
    const auto latent =
        DecodeLatent(message.latent(), absl::StrCat(field, ".latent"));
    reader.Update(latent.status());
    if (latent.ok()) spec.latent = *latent;
  }
  return reader.Done(spec);
}

v1::Projections EncodeProjections(const ProjectionSpec& spec) {
  v1::Projections message;
  if (spec.query) WriteLayer(*spec.query, *message.mutable_query());
  if (spec.key) WriteLayer(*spec.key, *message.mutable_key());
  if (spec.value) WriteLayer(*spec.value, *message.mutable_value());
  if (spec.output) WriteLayer(*spec.output, *message.mutable_output());
  message.set_q_heads(spec.q_heads);
  if (spec.kv_heads) message.set_kv_heads(*spec.kv_heads);
  if (spec.latent) WriteLatent(*spec.latent, *message.mutable_latent());
  return message;
}

}  // namespace attn
