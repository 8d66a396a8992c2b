#include "engine/core/problem.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

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

absl::Status CheckDTypes(const AttentionArgs& args, DType output_dtype) {
  const DType dtype = args.q.dtype;
  if (!IsFloat(dtype)) {
    return FieldError("q.dtype", Name(dtype), "F32, F16, BF16 or F64");
  }
  const std::string expected = absl::StrCat(Name(dtype), " as in q.dtype");
  if (args.k.dtype != dtype) {
    return FieldError("k.dtype", Name(args.k.dtype), expected);
  }
  if (args.v.dtype != dtype) {
    return FieldError("v.dtype", Name(args.v.dtype), expected);
  }
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

// No product of extents that a call may need overflows: the scores, as eight
// byte numbers, are the largest, or the output if d_v exceeds Sk.
absl::Status CheckVolume(const AttentionShape& shape) {
  int64_t bytes = sizeof(double);
  for (const int64_t extent :
       {shape.batch, shape.q_heads, shape.q_length,
        std::max({shape.kv_length, shape.v_dim, shape.q_dim, shape.k_dim})}) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) {
      return FieldError(
          "q.shape",
          absl::StrCat(shape.batch, " x ", shape.q_heads, " x ", shape.q_length,
                       " rows of ", shape.kv_length, " keys"),
          "scores and output below 2^63 bytes");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionShape> CheckShapes(const AttentionArgs& args) {
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
        CheckHeads(args),
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
  if (absl::Status status = CheckVolume(shape); !status.ok()) return status;
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
absl::Status CheckOutputs(const AttentionSpec& spec,
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
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Problem> MakeProblem(const AttentionSpec& spec,
                                    const AttentionArgs& args,
                                    const OutputSelection& outputs,
                                    DType output_dtype,
                                    absl::string_view kernel) {
  absl::StatusOr<AttentionShape> shape = CheckShapes(args);
  if (!shape.ok()) return shape.status();
  for (const absl::Status& status :
       {CheckDTypes(args, output_dtype),
        CheckLengths(args.q_lengths, "q_lengths", shape->batch,
                     shape->q_length),
        CheckLengths(args.kv_lengths, "kv_lengths", shape->batch,
                     shape->kv_length),
        CheckSpec(spec, shape->q_heads), CheckOutputs(spec, outputs)}) {
    if (!status.ok()) return status;
  }
  Problem problem;
  problem.spec = spec;
  problem.shape = *shape;
  problem.dtype = args.q.dtype;
  problem.output_dtype = output_dtype;
  for (const TensorView& input : args.inputs) {
    problem.inputs.push_back({input.dtype, input.shape});
  }
  problem.has_q_lengths = !args.q_lengths.empty();
  problem.has_kv_lengths = !args.kv_lengths.empty();
  problem.outputs = outputs;
  problem.kernel = std::string(kernel);
  return problem;
}

}  // namespace attn
