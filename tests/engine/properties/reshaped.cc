#include "tests/engine/properties/reshaped.h"

#include <numeric>

namespace attn::testing {
namespace {

std::vector<double> Part(const std::vector<double>& data, int64_t parts,
                         int64_t index) {
  const auto size = static_cast<int64_t>(data.size()) / parts;
  const auto begin = data.begin() + index * size;
  return {begin, begin + size};
}

// Rows `rows` of each plane of `length` rows of `width`.
std::vector<double> Pick(const std::vector<double>& tensor, int64_t length,
                         int64_t width, const std::vector<int64_t>& rows) {
  std::vector<double> picked;
  if (length * width == 0) return picked;
  const auto planes = static_cast<int64_t>(tensor.size()) / (length * width);
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (const int64_t row : rows) {
      const auto begin = tensor.begin() + (plane * length + row) * width;
      picked.insert(picked.end(), begin, begin + width);
    }
  }
  return picked;
}

std::vector<int64_t> Count(int64_t begin, int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

}  // namespace

oracle::VariantCase OneBatchEntry(const oracle::VariantCase& call, int64_t b) {
  oracle::VariantCase one = call;
  const int64_t batch = call.shape.batch;
  one.shape.batch = 1;
  one.q = Part(call.q, batch, b);
  one.k = Part(call.k, batch, b);
  one.v = Part(call.v, batch, b);
  for (oracle::Parameter& input : one.inputs) {
    if (!input.by_batch || input.shape[0] == 1) continue;
    input.data = Part(input.data, batch, b);
    input.shape[0] = 1;
  }
  if (!call.q_lengths.empty()) one.q_lengths = {call.QLength(b)};
  if (!call.kv_lengths.empty()) one.kv_lengths = {call.KvLength(b)};
  for (MaskSpec& mask : one.spec.masks) {
    auto* prefix = std::get_if<PrefixMask>(&mask);
    if (prefix == nullptr || prefix->prefix.size() == 1) continue;
    prefix->prefix = {prefix->prefix[static_cast<size_t>(b)]};
  }
  return one;
}

oracle::VariantCase WithKeys(const oracle::VariantCase& call,
                             const std::vector<int64_t>& keys) {
  oracle::VariantCase other = call;
  const AttentionShape& s = call.shape;
  other.shape.kv_length = static_cast<int64_t>(keys.size());
  other.k = Pick(call.k, s.kv_length, s.k_dim, keys);
  other.v = Pick(call.v, s.kv_length, s.v_dim, keys);
  return other;
}

oracle::VariantCase WithQueries(const oracle::VariantCase& call, int64_t begin,
                                int64_t count) {
  oracle::VariantCase other = call;
  const AttentionShape& s = call.shape;
  other.shape.q_length = count;
  other.q = RowsOf(call.q, s.q_length, s.q_dim, begin, count);
  return other;
}

std::vector<double> RowsOf(const std::vector<double>& tensor, int64_t length,
                           int64_t width, int64_t begin, int64_t count) {
  return Pick(tensor, length, width, Count(begin, count));
}

}  // namespace attn::testing
