#include "engine/core/projected_shape.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kField[] = "spec.projections";

// Beyond these a product of two could overflow; no tensor is that large.
constexpr int64_t kMostHeads = int64_t{1} << 20;
constexpr int64_t kMostRows = int64_t{1} << 30;

// [out, in] of a layer.
struct LayerWidths {
  int64_t out = 0;
  int64_t in = 0;
};

// Checks the parts of one call. Thread-compatible.
class Checker {
 public:
  Checker(const ProjectionSpec& spec, const AttentionArgs& args)
      : spec_(spec), args_(args), heads_(args) {}

  absl::StatusOr<AttentionArgs> Run();

 private:
  absl::Status CheckHeadCounts() const;
  absl::Status Check();
  absl::Status CheckLatent(const LatentProjection& latent);
  absl::Status CheckLatentQuery(const LatentProjection& latent);
  absl::Status CheckLatentKeys(const LatentProjection& latent);
  absl::Status CheckRotary(const LatentProjection& latent) const;
  // `tensor` is token rows of `layer`, or by head.
  absl::Status CheckPart(const std::optional<LinearLayer>& layer,
                         const char* name, int64_t heads, TensorView& tensor);
  absl::Status CheckOutput(const LinearLayer& layer) const;
  absl::StatusOr<LayerWidths> CheckLayer(const LinearLayer& layer,
                                         const std::string& field) const;
  // Token rows of that layer.
  absl::Status CheckTokens(const TensorView& tokens, const char* name,
                           const LayerWidths& layer) const;
  absl::Status CheckVector(uint32_t input, int64_t size,
                           const std::string& field) const;
  int64_t kv_heads() const { return spec_.kv_heads.value_or(spec_.q_heads); }

  const ProjectionSpec& spec_;
  const AttentionArgs& args_;
  AttentionArgs heads_;
};

template <typename Number>
absl::Status Expect(bool holds, const std::string& field, Number got,
                    const std::string& expected) {
  if (holds) return absl::OkStatus();
  return FieldError(field, absl::StrCat(got), expected);
}

TensorView Described(DType dtype, const Shape& shape) {
  return TensorView::Dense(nullptr, dtype, shape);
}

absl::StatusOr<LayerWidths> Checker::CheckLayer(
    const LinearLayer& layer, const std::string& field) const {
  const std::string weight = absl::StrCat(field, ".weight.input");
  if (layer.weight >= args_.inputs.size()) {
    return FieldError(weight, absl::StrCat(layer.weight),
                      absl::StrCat("an index below ", args_.inputs.size()));
  }
  const TensorView& tensor = args_.inputs[layer.weight];
  if (!IsFloat(tensor.dtype) || tensor.shape.rank() != 2) {
    return FieldError(
        weight, absl::StrCat(Name(tensor.dtype), " ", tensor.shape.ToString()),
        "F32, F16, BF16 or F64 of 2 axes: [out, in]");
  }
  const LayerWidths widths = {tensor.shape[0], tensor.shape[1]};
  if (layer.bias.has_value()) {
    absl::Status status = CheckVector(*layer.bias, widths.out,
                                      absl::StrCat(field, ".bias.input"));
    if (!status.ok()) return status;
  }
  return widths;
}

absl::Status Checker::CheckVector(uint32_t input, int64_t size,
                                  const std::string& field) const {
  if (input >= args_.inputs.size()) {
    return FieldError(field, absl::StrCat(input),
                      absl::StrCat("an index below ", args_.inputs.size()));
  }
  const TensorView& tensor = args_.inputs[input];
  if (IsFloat(tensor.dtype) && tensor.shape == Shape{size}) {
    return absl::OkStatus();
  }
  return FieldError(
      field, absl::StrCat(Name(tensor.dtype), " ", tensor.shape.ToString()),
      absl::StrCat("F32, F16, BF16 or F64 [", size, "]"));
}

absl::Status Checker::CheckTokens(const TensorView& tokens, const char* name,
                                  const LayerWidths& layer) const {
  if (tokens.shape.rank() == 3 && tokens.shape[2] == layer.in) {
    return absl::OkStatus();
  }
  return FieldError(
      absl::StrCat(name, ".shape"), tokens.shape.ToString(),
      absl::StrCat("[B, S, ", layer.in, "], token rows of its projection"));
}

absl::Status Checker::CheckPart(const std::optional<LinearLayer>& layer,
                                const char* name, int64_t heads,
                                TensorView& tensor) {
  if (!layer.has_value()) {
    // The rank is checked with all that come by head.
    const bool fits = spec_.q_heads == 0 || tensor.shape.rank() != 4 ||
                      tensor.shape[1] == heads;
    if (fits) return absl::OkStatus();
    return FieldError(absl::StrCat(name, ".shape"), tensor.shape.ToString(),
                      absl::StrCat(heads, " heads, as spec.projections says"));
  }
  const std::string side =
      name[0] == 'q' ? "query" : (name[0] == 'k' ? "key" : "value");
  const std::string field = absl::StrCat(kField, ".", side);
  const auto widths = CheckLayer(*layer, field);
  if (!widths.ok()) return widths.status();
  absl::Status status = CheckTokens(tensor, name, *widths);
  if (status.ok()) {
    status =
        Expect(widths->out % heads == 0, absl::StrCat(field, ".weight.input"),
               widths->out, absl::StrCat("rows for each of ", heads, " heads"));
  }
  if (!status.ok()) return status;
  tensor = Described(tensor.dtype, Shape{tensor.shape[0], heads,
                                         tensor.shape[1], widths->out / heads});
  return absl::OkStatus();
}

absl::Status Checker::CheckHeadCounts() const {
  const std::string field = absl::StrCat(kField, ".q_heads");
  const bool projects = spec_.query.has_value() || spec_.key.has_value() ||
                        spec_.value.has_value() || spec_.latent.has_value();
  if (!projects) {
    if (!spec_.output.has_value()) {
      return FieldError(kField, "no layer", "one at least, or no projections");
    }
    return absl::OkStatus();
  }
  absl::Status status = Expect(spec_.q_heads > 0 && spec_.q_heads <= kMostHeads,
                               field, spec_.q_heads, "1 to 1048576");
  if (!status.ok()) return status;
  return Expect(
      kv_heads() > 0 && spec_.q_heads % kv_heads() == 0,
      absl::StrCat(kField, ".kv_heads"), kv_heads(),
      absl::StrCat("a number that divides the ", spec_.q_heads, " of q_heads"));
}

absl::Status Checker::CheckRotary(const LatentProjection& latent) const {
  const std::string field = absl::StrCat(kField, ".latent.rotary");
  const RotaryTransform& rotary = latent.rotary;
  if (rotary.target != TransformTarget::kBoth || rotary.query_positions ||
      rotary.key_positions || rotary.cos || rotary.sin) {
    return FieldError(field, "a target or tensors", "neither");
  }
  const int64_t dim = rotary.rotary_dim.value_or(-1);
  absl::Status status = Expect(dim >= 0 && dim % 2 == 0 && dim <= kMostRows,
                               absl::StrCat(field, ".rotary_dim"), dim,
                               "an even number from 0 on");
  status.Update(Expect(std::isfinite(rotary.base) && rotary.base > 0,
                       absl::StrCat(field, ".base"), rotary.base,
                       "a finite number above 0"));
  status.Update(
      Expect(std::isfinite(rotary.position_scale) && rotary.position_scale > 0,
             absl::StrCat(field, ".position_scale"), rotary.position_scale,
             "a finite number above 0"));
  return status;
}

absl::Status Checker::CheckLatentQuery(const LatentProjection& latent) {
  const std::string field = absl::StrCat(kField, ".latent");
  const int64_t head = latent.plain_dim + *latent.rotary.rotary_dim;
  const auto up = CheckLayer(latent.query_up, absl::StrCat(field, ".query_up"));
  if (!up.ok()) return up.status();
  LayerWidths first = *up;
  absl::Status status;
  if (latent.query_down.has_value()) {
    const auto down =
        CheckLayer(*latent.query_down, absl::StrCat(field, ".query_down"));
    if (!down.ok()) return down.status();
    first = *down;
    status = Expect(up->in == down->out,
                    absl::StrCat(field, ".query_up.weight.input"), up->in,
                    absl::StrCat("rows of ", down->out, ", as query_down"));
  }
  status.Update(Expect(up->out == spec_.q_heads * head,
                       absl::StrCat(field, ".query_up.weight.input"), up->out,
                       absl::StrCat(spec_.q_heads, " heads of ", head,
                                    " rows: plain_dim + rotary_dim")));
  if (latent.query_norm.has_value()) {
    status.Update(latent.query_down.has_value()
                      ? CheckVector(*latent.query_norm, up->in,
                                    absl::StrCat(field, ".query_norm.input"))
                      : FieldError(absl::StrCat(field, ".query_norm"), "a norm",
                                   "none without query_down"));
  }
  status.Update(CheckTokens(args_.q, "q", first));
  if (!status.ok()) return status;
  const Shape& q = args_.q.shape;
  heads_.q = Described(args_.q.dtype, Shape{q[0], spec_.q_heads, q[1], head});
  return absl::OkStatus();
}

absl::Status Checker::CheckLatentKeys(const LatentProjection& latent) {
  const std::string field = absl::StrCat(kField, ".latent");
  const int64_t turning = *latent.rotary.rotary_dim;
  const int64_t plain = latent.plain_dim;
  const int64_t heads = spec_.q_heads;
  const auto down = CheckLayer(latent.kv_down, absl::StrCat(field, ".kv_down"));
  if (!down.ok()) return down.status();
  const auto up = CheckLayer(latent.kv_up, absl::StrCat(field, ".kv_up"));
  if (!up.ok()) return up.status();
  absl::Status status =
      Expect(down->out >= turning, absl::StrCat(field, ".kv_down.weight.input"),
             down->out, absl::StrCat("at least rotary_dim ", turning));
  status.Update(Expect(up->in == down->out - turning,
                       absl::StrCat(field, ".kv_up.weight.input"), up->in,
                       absl::StrCat("rows of ", down->out - turning,
                                    ", as kv_down without rotary_dim")));
  status.Update(Expect(
      up->out % heads == 0 && up->out / heads >= plain,
      absl::StrCat(field, ".kv_up.weight.input"), up->out,
      absl::StrCat(heads, " heads of plain_dim ", plain, " rows or more")));
  if (latent.kv_norm.has_value()) {
    status.Update(CheckVector(*latent.kv_norm, up->in,
                              absl::StrCat(field, ".kv_norm.input")));
  }
  status.Update(CheckTokens(args_.k, "k", *down));
  if (!status.ok()) return status;
  const Shape& k = args_.k.shape;
  heads_.k =
      Described(args_.k.dtype, Shape{k[0], heads, k[1], plain + turning});
  heads_.v = Described(args_.k.dtype,
                       Shape{k[0], heads, k[1], up->out / heads - plain});
  return absl::OkStatus();
}

absl::Status Checker::CheckLatent(const LatentProjection& latent) {
  const std::string field = absl::StrCat(kField, ".latent");
  if (spec_.query || spec_.key || spec_.value) {
    return FieldError(field, "latent beside query, key or value",
                      "one or the other");
  }
  if (args_.v.shape.rank() != 0) {
    return FieldError("v.shape", args_.v.shape.ToString(),
                      "no v: spec.projections.latent makes it of k");
  }
  absl::Status status = CheckRotary(latent);
  status.Update(Expect(latent.plain_dim >= 0 && latent.plain_dim <= kMostRows,
                       absl::StrCat(field, ".plain_dim"), latent.plain_dim,
                       "0 to the width of a head"));
  status.Update(Expect(std::isfinite(latent.eps) && latent.eps >= 0,
                       absl::StrCat(field, ".eps"), latent.eps,
                       "a finite number from 0 on"));
  status.Update(Expect(kv_heads() == spec_.q_heads,
                       absl::StrCat(kField, ".kv_heads"), kv_heads(),
                       "as q_heads: each head has keys of its own"));
  if (status.ok()) status = CheckLatentQuery(latent);
  if (status.ok()) status = CheckLatentKeys(latent);
  return status;
}

absl::Status Checker::CheckOutput(const LinearLayer& layer) const {
  const std::string field = absl::StrCat(kField, ".output");
  const auto widths = CheckLayer(layer, field);
  if (!widths.ok()) return widths.status();
  // Other ranks are refused with the tensors themselves.
  if (heads_.q.shape.rank() != 4 || heads_.v.shape.rank() != 4) {
    return absl::OkStatus();
  }
  int64_t joined = 0;
  const bool fits =
      !__builtin_mul_overflow(heads_.q.shape[1], heads_.v.shape[3], &joined);
  return Expect(fits && widths->in == joined,
                absl::StrCat(field, ".weight.input"), widths->in,
                absl::StrCat("rows of ", joined, ": Hq * d_v"));
}

absl::Status Checker::Check() {
  absl::Status status = CheckHeadCounts();
  if (!status.ok()) return status;
  if (spec_.latent.has_value()) {
    status = CheckLatent(*spec_.latent);
  } else {
    status = CheckPart(spec_.query, "q", spec_.q_heads, heads_.q);
    status.Update(CheckPart(spec_.key, "k", kv_heads(), heads_.k));
    status.Update(CheckPart(spec_.value, "v", kv_heads(), heads_.v));
  }
  if (status.ok() && spec_.output) status = CheckOutput(*spec_.output);
  return status;
}

absl::StatusOr<AttentionArgs> Checker::Run() {
  absl::Status status = Check();
  if (!status.ok()) return status;
  return std::move(heads_);
}

}  // namespace

absl::StatusOr<AttentionArgs> HeadArgs(const AttentionSpec& spec,
                                       const AttentionArgs& args) {
  return Checker(*spec.projections, args).Run();
}

}  // namespace attn
