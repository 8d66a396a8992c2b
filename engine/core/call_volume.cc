#include "engine/core/call_volume.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// Rows of a block, and keys of a chunk, of any kernel are at most as many.
constexpr int64_t kMostBlockRows = 512;

// Doubles do not overflow, and these limits are no matter of the last digit.
double Product(std::initializer_list<int64_t> extents) {
  double product = 1;
  for (const int64_t extent : extents) {
    product *= static_cast<double>(std::max<int64_t>(extent, 1));
  }
  return product;
}

bool TooMany(double elements) {
  return elements > static_cast<double>(kMaxFormedElements);
}

absl::Status CheckTensor(const Shape& shape, const std::string& field) {
  double elements = 1;
  for (const int64_t extent : shape.dims()) {
    if (extent > kMaxExtent) {
      return FieldError(field, shape.ToString(), "extents of at most 2^40");
    }
    elements *= static_cast<double>(std::max<int64_t>(extent, 1));
  }
  if (elements <= static_cast<double>(kMaxTensorElements)) {
    return absl::OkStatus();
  }
  return FieldError(field, shape.ToString(),
                    "extents above 0 whose product is at most 2^48");
}

std::string InputField(size_t input) {
  return absl::StrCat("inputs[", input, "].shape");
}

// Inputs that make rows of other widths than q, k and v have.
std::vector<uint32_t> WeightsOf(const ScoreSpec& spec) {
  std::vector<uint32_t> weights;
  if (const auto* score = std::get_if<BilinearScore>(&spec)) {
    weights = {score->weight};
  } else if (const auto* concat = std::get_if<ConcatScore>(&spec)) {
    weights = {concat->weight, concat->v};
  } else if (const auto* additive = std::get_if<AdditiveScore>(&spec)) {
    weights = {additive->v};
    if (additive->query_weight) weights.push_back(*additive->query_weight);
    if (additive->key_weight) weights.push_back(*additive->key_weight);
  }
  return weights;
}

std::vector<uint32_t> WeightsOf(const ProjectionSpec& spec) {
  std::vector<uint32_t> weights;
  const auto add = [&weights](const std::optional<LinearLayer>& layer) {
    if (layer.has_value()) weights.push_back(layer->weight);
  };
  add(spec.query);
  add(spec.key);
  add(spec.value);
  add(spec.output);
  if (!spec.latent.has_value()) return weights;
  add(spec.latent->query_down);
  add(spec.latent->query_up);
  add(spec.latent->kv_down);
  add(spec.latent->kv_up);
  return weights;
}

// `rows` rows as wide as any extent of these inputs.
absl::Status CheckWeights(const std::vector<uint32_t>& weights,
                          const AttentionArgs& args, double rows) {
  for (const uint32_t input : weights) {
    // The stage refuses an index that is none.
    if (input >= args.inputs.size()) continue;
    const Shape& shape = args.inputs[input].shape;
    for (const int64_t extent : shape.dims()) {
      if (!TooMany(rows * Product({extent}))) continue;
      return FieldError(
          InputField(input), shape.ToString(),
          absl::StrCat("at most 2^49 elements in ", rows, " rows of ", extent));
    }
  }
  return absl::OkStatus();
}

// A block of rows of q, k or v at every stage of its transforms.
absl::Status CheckBlocks(const AttentionSpec& spec, const AttentionArgs& args) {
  const auto stages = static_cast<int64_t>(spec.transforms.size()) + 1;
  const auto check = [&](const TensorView& tensor, absl::string_view field) {
    const int64_t dim = tensor.shape[tensor.shape.rank() - 1];
    if (!TooMany(Product({kMostBlockRows, stages, dim}))) {
      return absl::OkStatus();
    }
    return FieldError(field, tensor.shape.ToString(),
                      "at most 2^49 elements in 512 rows at every transform");
  };
  absl::Status status = check(args.q, "q.shape");
  status.Update(check(args.k, "k.shape"));
  status.Update(check(args.v, "v.shape"));
  return status;
}

// The states that the way back keeps: LinearStates.
absl::Status CheckLinear(const AttentionSpec& spec, const AttentionArgs& args,
                         const AttentionShape& shape) {
  if (!std::holds_alternative<LinearNormalizer>(spec.normalizer)) {
    return absl::OkStatus();
  }
  const double segments = std::sqrt(static_cast<double>(shape.kv_length));
  // Query heads too: the work of a row is counted for all of a group.
  const int64_t heads = std::max(shape.q_heads, shape.kv_heads);
  if (!TooMany(Product({shape.batch, heads, shape.k_dim, shape.v_dim + 1}) *
               (2 * segments + 4))) {
    return absl::OkStatus();
  }
  return FieldError("k.shape", args.k.shape.ToString(),
                    absl::StrCat("at most 2^49 elements in the states of ",
                                 shape.k_dim, " x ", shape.v_dim));
}

}  // namespace

absl::Status CheckExtents(const AttentionArgs& args) {
  absl::Status status = CheckTensor(args.q.shape, "q.shape");
  status.Update(CheckTensor(args.k.shape, "k.shape"));
  status.Update(CheckTensor(args.v.shape, "v.shape"));
  for (size_t i = 0; i < args.inputs.size() && status.ok(); ++i) {
    status = CheckTensor(args.inputs[i].shape, InputField(i));
  }
  return status;
}

absl::Status CheckVolume(const AttentionSpec& spec, const AttentionArgs& args,
                         const AttentionShape& shape) {
  const double rows = Product({shape.batch, shape.q_heads, shape.q_length});
  const double keys = Product({shape.batch, shape.kv_heads, shape.kv_length});
  if (TooMany(rows * Product({std::max({shape.kv_length, shape.q_dim,
                                        shape.k_dim, shape.v_dim})}))) {
    return FieldError(
        "q.shape",
        absl::StrCat(shape.batch, " x ", shape.q_heads, " x ", shape.q_length,
                     " rows of ", shape.kv_length, " keys"),
        "scores, rows and output of at most 2^49 elements");
  }
  if (TooMany(keys * Product({shape.k_dim + shape.v_dim}))) {
    return FieldError("k.shape", args.k.shape.ToString(),
                      "keys and values of at most 2^49 elements");
  }
  absl::Status status = CheckBlocks(spec, args);
  status.Update(CheckLinear(spec, args, shape));
  status.Update(
      CheckWeights(WeightsOf(spec.score), args, std::max(rows, keys)));
  if (spec.projections.has_value()) {
    status.Update(CheckWeights(
        WeightsOf(*spec.projections), args,
        Product({shape.batch, std::max(shape.q_length, shape.kv_length)})));
  }
  return status;
}

}  // namespace attn
