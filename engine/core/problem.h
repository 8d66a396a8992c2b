// What a plan is made for: a spec, the shapes and types of a call, and what is
// wanted of it. Equal problems share a plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/gradients.h"

namespace attn {

// Which outputs a call asks for. Row statistics always come, but for those that
// cost a pass of their own.
struct OutputSelection {
  bool output = true;
  bool logits = false;
  bool masked_logits = false;
  bool weights = false;
  bool dropout_keep = false;
  bool state = false;
  // The heads' outputs before an output projection.
  bool head_output = false;
  // Moments of the logits and contributions in the row statistics.
  bool statistics = false;
  bool contribution = false;
  bool gradient_weight = false;

  friend bool operator==(const OutputSelection&,
                         const OutputSelection&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const OutputSelection& o) {
    return H::combine(std::move(h), o.output, o.logits, o.masked_logits,
                      o.weights, o.dropout_keep, o.state, o.statistics,
                      o.contribution, o.gradient_weight, o.head_output);
  }
};

// dtype and shape of a tensor in AttentionArgs::inputs.
struct TensorSignature {
  DType dtype = DType::kF32;
  Shape shape;

  friend bool operator==(const TensorSignature&,
                         const TensorSignature&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TensorSignature& s) {
    return H::combine(std::move(h), s.dtype, s.shape);
  }
};

// A value; thread-compatible.
struct Problem {
  AttentionSpec spec;
  // Of the heads; spec.projections says what token rows they are made of.
  AttentionShape shape;
  // Type of q; and of k and v, which is the same or, with a quantization, I8.
  DType dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  // Whether the call came in F16, also where its heads are wider.
  bool counts_f16_overflows = false;
  // Whether a matrix product can read the rows of k as they lie in memory.
  bool k_is_matrix = true;
  DType output_dtype = DType::kF32;
  std::vector<TensorSignature> inputs;
  // Whether the call brings lengths (their values are data, not plan).
  bool has_q_lengths = false;
  bool has_kv_lengths = false;
  // Whether q, k and v are ragged; they bring lengths then. Rows of q, and of k
  // and v, of all sequences together.
  bool ragged = false;
  int64_t q_rows = 0;
  int64_t kv_rows = 0;
  OutputSelection outputs;
  // A kernel asked for by name; empty: the plan's choice.
  std::string kernel;
  // What a backward call brings and wants; of a forward call nothing.
  GradientSelection gradients;

  // [B, Hq, Sq, d_v], or [B, Sq, out] with an output projection.
  Shape OutputShape() const;

  friend bool operator==(const Problem&, const Problem&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Problem& p) {
    return H::combine(std::move(h), p.spec, p.shape, p.dtype, p.kv_dtype,
                      p.counts_f16_overflows, p.k_is_matrix, p.output_dtype,
                      p.inputs, p.has_q_lengths, p.has_kv_lengths, p.ragged,
                      p.q_rows, p.kv_rows, p.outputs, p.kernel, p.gradients);
  }
};

// Checks `args` against `spec` and gives the problem. Every error names its
// field as the request spells it ("q.shape", "kv_lengths[3]",
// "spec.temperatures[1]", ...). Looks at types, shapes, lengths, offsets,
// softcap and temperatures, never at tensor data: views may be without data.
// The members of the stages are checked by their tables
// (engine/kernels/pipeline.h).
absl::StatusOr<Problem> MakeProblem(const AttentionSpec& spec,
                                    const AttentionArgs& args,
                                    const OutputSelection& outputs,
                                    DType output_dtype,
                                    absl::string_view kernel);

}  // namespace attn
