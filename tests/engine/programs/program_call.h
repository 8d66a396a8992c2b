// A call that brings programs: shape, tables, and tiles to run them on.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/call_view.h"
#include "engine/core/problem.h"
#include "engine/programs/program.h"
#include "engine/tile/tile.h"
#include "gtest/gtest.h"
#include "tests/engine/programs/elements.h"

namespace attn {

// Where an element stands.
struct At {
  int64_t b = 0;
  int64_t h = 0;
  int64_t q = 0;
  int64_t k = 0;
};

// Thread-compatible.
class ProgramCall {
 public:
  ProgramCall(int64_t batch, int64_t heads, int64_t q_length,
              int64_t kv_length) {
    problem_.shape = {.batch = batch,
                      .q_heads = heads,
                      .kv_heads = heads,
                      .q_length = q_length,
                      .kv_length = kv_length,
                      .q_dim = 4,
                      .k_dim = 4,
                      .v_dim = 4};
  }

  const Problem& problem() const { return problem_; }
  const AttentionShape& shape() const { return problem_.shape; }
  const AttentionArgs& args() const { return args_; }
  CallView view() const { return {problem_.shape, args_}; }

  // Copies `values` as the next input, which programs read by `name`.
  template <typename T>
  void AddTable(const std::string& name, DType dtype, const Shape& shape,
                const std::vector<T>& values) {
    storage_.push_back(
        std::make_unique<std::byte[]>(values.size() * sizeof(T) + 1));
    std::memcpy(storage_.back().get(), values.data(),
                values.size() * sizeof(T));
    AddView(name, TensorView::Dense(storage_.back().get(), dtype, shape));
  }
  void AddView(const std::string& name, const TensorView& view) {
    tables_.push_back({name, static_cast<uint32_t>(args_.inputs.size())});
    args_.inputs.push_back(view);
    problem_.inputs.push_back({view.dtype, view.shape});
  }
  // Elements of an F64 table.
  double* Elements(size_t table) const {
    return reinterpret_cast<double*>(storage_[table].get());
  }

  ProgramSpec Spec(const std::string& source) const {
    return {source, tables_};
  }
  absl::StatusOr<std::unique_ptr<const Program>> Compile(
      ProgramKind kind, const std::string& source) const {
    return Program::Compile(Spec(source), problem_, kind, "spec.program");
  }

  // All rows and keys of one head.
  TileBounds Head(int64_t batch, int64_t head) const {
    return {batch, head, 0, shape().q_length, 0, shape().kv_length};
  }

 private:
  Problem problem_;
  AttentionArgs args_;
  std::vector<ProgramTable> tables_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

// Calls fn(at) for every element of a call.
template <typename Fn>
void ForEachElement(const AttentionShape& shape, const Fn& fn) {
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.q_heads; ++h) {
      for (int64_t q = 0; q < shape.q_length; ++q) {
        for (int64_t k = 0; k < shape.kv_length; ++k) fn(At{b, h, q, k});
      }
    }
  }
}

// A score that differs from element to element, of both signs.
inline double ScoreAt(const At& at) {
  return static_cast<double>((at.k * 7 + at.q * 13 + at.h * 5 + at.b) % 23 -
                             11) /
         4.0;
}

// The numbers that a score program gives for ScoreAt(), in the order of
// ForEachElement(); those of a mask program are 1 and 0.
template <typename T>
std::vector<double> RunOnScores(const ProgramCall& call, ProgramKind kind,
                                const std::string& source) {
  const auto program = call.Compile(kind, source);
  EXPECT_TRUE(program.ok()) << program.status();
  std::vector<double> results;
  if (!program.ok()) return results;
  const AttentionShape& shape = call.shape();
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.q_heads; ++h) {
      Elements<T> scores(call.Head(b, h));
      for (int64_t q = 0; q < shape.q_length; ++q) {
        for (int64_t k = 0; k < shape.kv_length; ++k) {
          scores(q, k) = static_cast<T>(ScoreAt({b, h, q, k}));
        }
      }
      if (kind == ProgramKind::kMask) {
        (*program)->Exclude(call.view(), scores.tile());
      } else {
        (*program)->Run(call.view(), scores.tile(), scores.tile());
      }
      for (int64_t q = 0; q < shape.q_length; ++q) {
        for (int64_t k = 0; k < shape.kv_length; ++k) {
          const auto got = static_cast<double>(scores(q, k));
          results.push_back(kind != ProgramKind::kMask ? got
                            : got == -kInf             ? 0
                                                       : 1);
        }
      }
    }
  }
  return results;
}

}  // namespace attn
