// An oracle case as a call of the engine: tensors in any type and layout, run
// by a kernel or by the engine, read back as doubles.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/problem.h"
#include "engine/core/row_statistics.h"
#include "engine/engine.h"
#include "engine/kernels/kernel.h"
#include "tests/testing/oracle.h"

namespace attn::testing {

// How a case's tensors are stored.
enum class Layout : uint8_t {
  kBhsd,
  kBshd,
  // [B, H, D, S]: no row is contiguous.
  kBhds,
};

struct CallOptions {
  DType dtype = DType::kF32;
  DType output_dtype = DType::kF32;
  Layout layout = Layout::kBhsd;
  // Ask for logits, masked logits and weights too.
  bool scores = true;
  // And for moments of the logits.
  bool statistics = true;
};

// What a run left behind. Memory that it did not write reads as NaN.
struct Outcome {
  std::vector<double> output;
  std::vector<double> logits;
  std::vector<double> masked_logits;
  std::vector<double> weights;
  std::vector<double> lse;
  std::vector<RowStatistics> rows;
  int64_t nonfinite_q = 0;
  int64_t nonfinite_k = 0;
  int64_t nonfinite_v = 0;
  int64_t nonfinite_outputs = 0;

  // Bit by bit, NaN equal to NaN.
  bool SameBits(const Outcome& other) const;
};

// Rounds every q, k and v of a case to `dtype`, so that the oracle sees what
// the engine sees.
void RoundTo(DType dtype, oracle::Case& call);

// Owns the tensors of one case. Thread-compatible.
class EngineCall {
 public:
  EngineCall(const oracle::Case& call, const CallOptions& options);

  const AttentionSpec& spec() const { return spec_; }
  const AttentionArgs& args() const { return args_; }
  absl::StatusOr<Problem> MakeProblem() const;

  // Every job of the kernel one after the other, the last of a phase first.
  Outcome RunBackwards(const Kernel& kernel) const;
  // By the engine's own workers, with the kernel of that name.
  Outcome Run(Engine& engine, const std::string& kernel) const;
  // As Engine::Run() does it: a small call by the calling thread.
  Outcome RunAndWait(Engine& engine, const std::string& kernel) const;

 private:
  using Bytes = std::vector<std::byte>;

  TensorView Store(const std::vector<double>& values, Shape shape, DType dtype);
  TensorView StoreHeads(const std::vector<double>& values, const Shape& shape);
  OutputSelection Selection() const;
  template <typename RunPlan>
  Outcome RunWith(Engine& engine, const std::string& kernel, RunPlan run) const;

  CallOptions options_;
  AttentionShape shape_;
  AttentionSpec spec_;
  AttentionArgs args_;
  std::vector<std::unique_ptr<Bytes>> storage_;
};

}  // namespace attn::testing
