#include "engine/core/problem.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/call_volume.h"
#include "engine/core/field_error.h"
#include "engine/core/projected_shape.h"
#include "engine/core/ragged.h"
#include "engine/core/row_place.h"

namespace attn {
namespace {

// q, k and v are [batch, heads, length, dim].
constexpr int kTensorRank = 4;
constexpr int kBatch = 0;
constexpr int kHeads = 1;
constexpr int kLength = 2;
constexpr int kDim = 3;

absl::Status CheckRank(const TensorView& tensor, absl::string_view field) {
  if (tensor.shape.rank() == kTensorRank) return absl::OkStatus();
  return FieldError(field, tensor.shape.ToString(),
                    "rank 4: [batch, heads, length, dim]");
}

// `a` and `b` must have the same extent on `axis`.
absl::Status CheckEqualExtent(const TensorView& a, absl::string_view a_field,
                              const Shape& b, absl::string_view b_field,
                              int axis) {
  static constexpr const char* kAxisNames[kTensorRank] = {"batch", "heads",
                                                          "length", "dim"};
  if (a.shape[axis] == b[axis]) return absl::OkStatus();
  return FieldError(a_field, a.shape.ToString(),
                    absl::StrCat(kAxisNames[axis], " ", b[axis], " as in ",
                                 b_field, " ", b.ToString()));
}

absl::Status CheckDTypes(const AttentionSpec& spec, const AttentionArgs& args) {
  DType dtype = args.q.dtype;
  if (!IsFloat(dtype)) {
    return FieldError("q.dtype", Name(dtype), "F32, F16, BF16 or F64");
  }
  std::string expected = absl::StrCat(Name(dtype), " as in q.dtype");
  if (args.kv_blocks.present() && !spec.kv_quantization.has_value()) {
    // Rows are widened from whatever is kept.
    dtype = args.k.dtype;
    expected = "F32, F16 or BF16, the same for k and v";
    if (!IsFloat(dtype) || dtype == DType::kF64) {
      return FieldError("k.dtype", Name(dtype), expected);
    }
  } else if (spec.kv_quantization.has_value()) {
    dtype = DType::kI8;
    expected = "I8 with spec.kv_quantization";
  } else if (args.k.dtype == DType::kI8) {
    absl::StrAppend(&expected, ", or spec.kv_quantization for I8");
  }
  if (args.k.dtype != dtype) {
    return FieldError("k.dtype", Name(args.k.dtype), expected);
  }
  if (args.v.dtype != dtype) {
    return FieldError("v.dtype", Name(args.v.dtype), expected);
  }
  return absl::OkStatus();
}

absl::Status CheckOutputDType(DType dtype, DType output_dtype) {
  if (dtype == DType::kF64 && output_dtype != DType::kF64) {
    return FieldError("output_dtype", Name(output_dtype),
                      "F64 for inputs of F64");
  }
  if (dtype != DType::kF64 &&
      (!IsFloat(output_dtype) || output_dtype == DType::kF64)) {
    return FieldError(
        "output_dtype", Name(output_dtype),
        absl::StrCat("F32, F16 or BF16 for inputs of ", Name(dtype)));
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const AttentionArgs& args) {
  const int64_t q_heads = args.q.shape[kHeads];
  const int64_t kv_heads = args.k.shape[kHeads];
  const bool divisible = kv_heads == 0 ? q_heads == 0 : q_heads % kv_heads == 0;
  if (divisible) return absl::OkStatus();
  return FieldError("k.shape", args.k.shape.ToString(),
                    absl::StrCat("a head count that divides the ", q_heads,
                                 " of q.shape ", args.q.shape.ToString()));
}

absl::StatusOr<AttentionShape> PaddedShape(const AttentionArgs& args) {
  for (const absl::Status& status :
       {CheckRank(args.q, "q.shape"), CheckRank(args.k, "k.shape"),
        CheckRank(args.v, "v.shape")}) {
    if (!status.ok()) return status;
  }
  const Shape& q = args.q.shape;
  const Shape& k = args.k.shape;
  for (const absl::Status& status :
       {CheckEqualExtent(args.k, "k.shape", q, "q.shape", kBatch),
        CheckEqualExtent(args.v, "v.shape", q, "q.shape", kBatch),
        CheckEqualExtent(args.v, "v.shape", k, "k.shape", kHeads),
        CheckEqualExtent(args.v, "v.shape", k, "k.shape", kLength)}) {
    if (!status.ok()) return status;
  }
  AttentionShape shape;
  shape.batch = q[kBatch];
  shape.q_heads = q[kHeads];
  shape.kv_heads = k[kHeads];
  shape.q_length = q[kLength];
  shape.kv_length = k[kLength];
  shape.q_dim = q[kDim];
  shape.k_dim = k[kDim];
  shape.v_dim = args.v.shape[kDim];
  return shape;
}

// Blocks are of one sequence, and hold heads.
absl::Status CheckBlocks(const AttentionSpec& spec, const AttentionArgs& args,
                         const AttentionShape& shape) {
  if (!args.kv_blocks.present()) return absl::OkStatus();
  if (shape.batch != 1 || args.ragged()) {
    return FieldError("kv_blocks", absl::StrCat("a batch of ", shape.batch),
                      "one sequence, not ragged");
  }
  if (spec.projections.has_value()) {
    return FieldError("spec.projections", "set", "unset with kv_blocks");
  }
  if (args.q.dtype == DType::kF64) {
    return FieldError("q.dtype", "F64", "F32, F16 or BF16 with kv_blocks");
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionShape> CheckShapes(const AttentionSpec& spec,
                                           const AttentionArgs& args) {
  absl::Status extents = CheckExtents(args);
  if (!extents.ok()) return extents;
  const bool ragged = args.ragged() || !args.kv_offsets.empty();
  absl::StatusOr<AttentionShape> shape =
      ragged ? RaggedShape(args) : PaddedShape(args);
  if (!shape.ok()) return shape;
  absl::Status blocks = CheckBlocks(spec, args, *shape);
  if (!blocks.ok()) return blocks;
  for (const absl::Status& status :
       {CheckHeads(args), CheckVolume(spec, args, *shape)}) {
    if (!status.ok()) return status;
  }
  return shape;
}

absl::Status CheckLengths(const std::vector<int64_t>& lengths,
                          absl::string_view field, int64_t batch,
                          int64_t limit) {
  if (lengths.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(lengths.size()) != batch) {
    return FieldError(
        field, absl::StrCat(lengths.size(), " lengths"),
        absl::StrCat("none, or one for each of ", batch, " batch entries"));
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > limit) {
      return FieldError(absl::StrCat(field, "[", i, "]"),
                        absl::StrCat(lengths[i]), absl::StrCat("0 to ", limit));
    }
  }
  return absl::OkStatus();
}

bool IsFinitePositive(double value) {
  return std::isfinite(value) && value > 0;
}

absl::Status CheckTemperatures(const std::vector<double>& temperatures,
                               int64_t q_heads) {
  const auto count = static_cast<int64_t>(temperatures.size());
  if (count > 1 && count != q_heads) {
    return FieldError("spec.temperatures", absl::StrCat(count, " values"),
                      absl::StrCat("none, one, or one for each of ", q_heads,
                                   " query heads"));
  }
  for (size_t i = 0; i < temperatures.size(); ++i) {
    if (!IsFinitePositive(temperatures[i])) {
      return FieldError(absl::StrCat("spec.temperatures[", i, "]"),
                        absl::StrCat(temperatures[i]),
                        "a finite number above 0");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const AttentionSpec& spec, int64_t q_heads) {
  if (spec.softcap.has_value() && !IsFinitePositive(*spec.softcap)) {
    return FieldError("spec.softcap", absl::StrCat(*spec.softcap),
                      "a finite number above 0");
  }
  return CheckTemperatures(spec.temperatures, q_heads);
}

// Outputs that only some specs have.
absl::Status CheckOutputs(const AttentionSpec& spec, const AttentionArgs& args,
                          const OutputSelection& outputs) {
  if (outputs.dropout_keep && !spec.dropout.has_value()) {
    return FieldError("outputs", "the keep mask of a spec without dropout",
                      "spec.dropout, or other outputs");
  }
  if (outputs.state &&
      !std::holds_alternative<LinearNormalizer>(spec.normalizer)) {
    return FieldError("outputs", "the state of a spec that has none",
                      "spec.normalizer.linear, or other outputs");
  }
  if (outputs.head_output && args.ragged()) {
    return FieldError("outputs", "the heads' outputs of a ragged call",
                      "the output, which is the same without projections");
  }
  return absl::OkStatus();
}

absl::Status CheckCotangent(const Problem& problem, const AttentionArgs& args) {
  if (!problem.outputs.gradient_weight) return absl::OkStatus();
  const Shape expected = problem.OutputShape();
  if (args.d_output.shape != expected) {
    return FieldError("d_output.shape", args.d_output.shape.ToString(),
                      absl::StrCat(expected.ToString(), " as the output"));
  }
  if (!IsFloat(args.d_output.dtype)) {
    return FieldError("d_output.dtype", Name(args.d_output.dtype),
                      "F32, F16, BF16 or F64");
  }
  return absl::OkStatus();
}

// What token rows cannot be.
absl::Status CheckTokenRows(const ProjectionSpec& projections,
                            const AttentionSpec& spec,
                            const AttentionArgs& args) {
  const bool q_offsets = !args.q_offsets.empty();
  if (q_offsets || !args.kv_offsets.empty()) {
    return FieldError(
        q_offsets ? "q_offsets" : "kv_offsets",
        absl::StrCat((q_offsets ? args.q_offsets : args.kv_offsets).size(),
                     " offsets"),
        "none beside spec.projections: token rows are padded");
  }
  const bool makes_keys =
      projections.key || projections.value || projections.latent;
  if (spec.kv_quantization.has_value() && makes_keys) {
    return FieldError("spec.kv_quantization", "scales",
                      "nothing: projected keys and values are no integers");
  }
  return absl::OkStatus();
}

// Causal linear attention walks queries and keys side by side.
absl::Status CheckCausalLinear(const AttentionSpec& spec,
                               const AttentionArgs& args) {
  const auto* linear = std::get_if<LinearNormalizer>(&spec.normalizer);
  if (linear == nullptr || linear->bidirectional ||
      args.q_offsets == args.kv_offsets) {
    return absl::OkStatus();
  }
  return FieldError("kv_offsets", "sequences of other lengths",
                    "those of q_offsets, or a bidirectional spec");
}

}  // namespace

Shape Problem::OutputShape() const {
  if (spec.projections.has_value() && spec.projections->output.has_value()) {
    const TensorSignature& weight = inputs[spec.projections->output->weight];
    return {shape.batch, shape.q_length, weight.shape[0]};
  }
  if (ragged) return {q_rows, shape.q_heads, shape.v_dim};
  return {shape.batch, shape.q_heads, shape.q_length, shape.v_dim};
}

absl::StatusOr<Problem> MakeProblem(const AttentionSpec& spec,
                                    const AttentionArgs& call_args,
                                    const OutputSelection& outputs,
                                    DType output_dtype,
                                    absl::string_view kernel) {
  AttentionArgs heads;
  if (spec.projections.has_value()) {
    absl::Status status = CheckExtents(call_args);
    status.Update(CheckTokenRows(*spec.projections, spec, call_args));
    if (!status.ok()) return status;
    auto described = HeadArgs(spec, call_args);
    if (!described.ok()) return described.status();
    heads = *std::move(described);
  }
  const AttentionArgs& args = spec.projections ? heads : call_args;
  absl::StatusOr<AttentionShape> shape = CheckShapes(spec, args);
  if (!shape.ok()) return shape.status();
  for (const absl::Status& status :
       {CheckDTypes(spec, args), CheckOutputDType(args.q.dtype, output_dtype),
        CheckLengths(args.q_lengths, "q_lengths", shape->batch,
                     shape->q_length),
        CheckLengths(args.kv_lengths, "kv_lengths", shape->batch,
                     shape->kv_length),
        CheckSpec(spec, shape->q_heads), CheckOutputs(spec, args, outputs),
        CheckCausalLinear(spec, args)}) {
    if (!status.ok()) return status;
  }
  Problem problem;
  problem.spec = spec;
  problem.shape = *shape;
  problem.dtype = args.q.dtype;
  problem.kv_dtype = args.k.dtype;
  problem.counts_f16_overflows = args.q.dtype == DType::kF16;
  problem.k_is_matrix =
      !args.kv_blocks.present() &&
      IsMatrix(args.k, PlaceOf(args.k, args.kv_offsets, 0, 0));
  problem.output_dtype = output_dtype;
  for (const TensorView& input : args.inputs) {
    problem.inputs.push_back({input.dtype, input.shape});
  }
  problem.has_q_lengths = !args.q_lengths.empty() || args.ragged();
  problem.has_kv_lengths = !args.kv_lengths.empty() || args.ragged();
  problem.ragged = args.ragged();
  if (problem.ragged) {
    problem.q_rows = args.q.shape[0];
    problem.kv_rows = args.k.shape[0];
  }
  problem.outputs = outputs;
  problem.kernel = std::string(kernel);
  absl::Status cotangent = CheckCotangent(problem, args);
  if (!cotangent.ok()) return cotangent;
  return problem;
}

}  // namespace attn
