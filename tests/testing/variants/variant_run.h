// A variant as a call of the engine, run by one of its kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/variants/variant_case.h"
#include "tests/testing/variants/variant_oracle.h"

namespace attn::testing {

// Whether a run asks for rows of scores: masked logits and weights. Kernels
// that never hold them compute only calls that do not.
enum class Rows { kAskedFor, kNot, kWherePossible };

// What a run left behind. What it did not write reads as NaN, what it did not
// ask for is empty.
struct VariantOutcome {
  std::vector<double> output;
  std::vector<double> masked_logits;
  std::vector<double> weights;
  std::vector<double> lse;
  std::vector<double> lse_with_sink;
  std::vector<double> state;
  std::vector<RowStatistics> rows;

  // Bit by bit, NaN equal to NaN; the row statistics too.
  bool SameBits(const VariantOutcome& other) const;
};

// Owns the tensors of one call, q, k and v in `dtype`. Thread-compatible.
class VariantRun {
 public:
  explicit VariantRun(const oracle::VariantCase& call,
                      DType dtype = DType::kF32);

  AttentionArgs& args() { return args_; }
  // Why the kernel does not compute the call; empty: it does. Fails the test
  // if the call itself is refused.
  std::string WhyNot(const std::string& kernel,
                     Rows rows = Rows::kAskedFor) const;
  VariantOutcome Run(const std::string& kernel,
                     Rows rows = Rows::kAskedFor) const;
  // What the engine says to gradients of q, k, v and every float input.
  absl::Status PlanBackward() const;

 private:
  TensorView Store(const std::vector<double>& values, const Shape& shape,
                   DType dtype);
  bool linear() const {
    return std::holds_alternative<LinearNormalizer>(spec_.normalizer);
  }
  OutputSelection Selection(bool rows) const;
  std::string WhyNot(const std::string& kernel, bool rows) const;
  bool AsksForRows(const std::string& kernel, Rows rows) const;

  AttentionShape shape_;
  AttentionSpec spec_;
  DType dtype_;
  AttentionArgs args_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

// Every kernel of the table that computes the call, in `dtype`; at least one.
std::vector<std::string> KernelsOf(const oracle::VariantCase& call,
                                   DType dtype = DType::kF32,
                                   Rows rows = Rows::kAskedFor);

// How far a run may be from the oracle, relative to what is rounded.
struct Closeness {
  double tolerance = 1e-4;
  // Rows nearer to another choice are passed over.
  double margin = 1e-3;
};

// The run against the oracle, row by row; rows of scores if it has them.
::testing::AssertionResult Agrees(const VariantOutcome& got,
                                  const oracle::VariantResult& want,
                                  const oracle::VariantCase& call,
                                  Closeness closeness);

// The variant in words, for messages.
std::string Describe(const oracle::VariantCase& call);

}  // namespace attn::testing
