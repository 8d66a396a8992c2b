// Any variant of attention, its tensors as numbers in double.
//
// What is asked for is spelled as engine/core spells it (a spec is data); how
// it is computed here shares nothing with the engine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "engine/core/attention_args.h"
#include "engine/core/attention_spec.h"
#include "engine/core/dtype.h"

namespace attn::oracle {

// One tensor that stages point to.
struct Parameter {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> data;
  // Whether the first axis is the batch.
  bool by_batch = false;
};

// q [B, Hq, Sq, d_q], k [B, Hkv, Sk, d_k], v [B, Hkv, Sk, d_v].
struct VariantCase {
  AttentionShape shape;
  AttentionSpec spec;
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<Parameter> inputs;
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;

  uint32_t Add(Parameter parameter) {
    inputs.push_back(std::move(parameter));
    return static_cast<uint32_t>(inputs.size() - 1);
  }
  int64_t QLength(int64_t batch) const {
    return q_lengths.empty() ? shape.q_length
                             : q_lengths[static_cast<size_t>(batch)];
  }
  int64_t KvLength(int64_t batch) const {
    return kv_lengths.empty() ? shape.kv_length
                              : kv_lengths[static_cast<size_t>(batch)];
  }
  int64_t KvHead(int64_t head) const {
    return head / (shape.q_heads / shape.kv_heads);
  }
};

// A query of a query head, and a key of its KV head.
struct Pair {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;
  int64_t key = 0;
};

// An element whose last indices are `index`; a tensor of one axis more has
// `lead` in front.
inline double Read(const Parameter& tensor, int64_t lead,
                   std::initializer_list<int64_t> index) {
  int64_t offset = tensor.shape.size() > index.size() ? lead : 0;
  size_t axis = tensor.shape.size() - index.size();
  for (const int64_t i : index) offset = offset * tensor.shape[axis++] + i;
  return tensor.data[static_cast<size_t>(offset)];
}

// An element of a tensor that broadcasts to [B, Hq, Sq, Sk], by numpy's rule.
inline double ReadBroadcast(const Parameter& tensor, const Pair& p) {
  const int64_t full[4] = {p.batch, p.head, p.query, p.key};
  const size_t missing = 4 - tensor.shape.size();
  int64_t offset = 0;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t extent = tensor.shape[axis];
    offset = offset * extent + (extent == 1 ? 0 : full[missing + axis]);
  }
  return tensor.data[static_cast<size_t>(offset)];
}

// Functions of one member each as one function of their variant.
template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace attn::oracle
