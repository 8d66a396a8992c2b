// What a plan is made for: a spec, the shapes and types of a call, and what is
// wanted of it. Equal problems share a plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"

namespace attn {

// Which outputs a call asks for. Row statistics always come.
struct OutputSelection {
  bool output = true;
  bool logits = false;
  bool masked_logits = false;
  bool weights = false;
  bool dropout_keep = false;
  bool state = false;

  friend bool operator==(const OutputSelection&,
                         const OutputSelection&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const OutputSelection& o) {
    return H::combine(std::move(h), o.output, o.logits, o.masked_logits,
                      o.weights, o.dropout_keep, o.state);
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
  AttentionShape shape;
  // Type of q, k and v, all three alike.
  DType dtype = DType::kF32;
  DType output_dtype = DType::kF32;
  std::vector<TensorSignature> inputs;
  // Whether the call brings lengths (their values are data, not plan).
  bool has_q_lengths = false;
  bool has_kv_lengths = false;
  OutputSelection outputs;
  // A kernel asked for by name; empty: the plan's choice.
  std::string kernel;

  friend bool operator==(const Problem&, const Problem&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Problem& p) {
    return H::combine(std::move(h), p.spec, p.shape, p.dtype, p.output_dtype,
                      p.inputs, p.has_q_lengths, p.has_kv_lengths, p.outputs,
                      p.kernel);
  }
};

// Checks `args` against `spec` and gives the problem. Every error names its
// field as the request spells it ("q.shape", "kv_lengths[3]",
// "spec.temperatures[1]", ...). Looks at types, shapes, lengths, softcap and
// temperatures, never at tensor data: views may be without data. The members of
// the stages are checked by their tables (engine/kernels/pipeline.h).
absl::StatusOr<Problem> MakeProblem(const AttentionSpec& spec,
                                    const AttentionArgs& args,
                                    const OutputSelection& outputs,
                                    DType output_dtype,
                                    absl::string_view kernel);

}  // namespace attn
