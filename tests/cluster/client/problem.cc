#include "tests/cluster/client/problem.h"

#include <cmath>
#include <random>

#include "client/library/outputs.h"
#include "tests/testing/oracle.h"

namespace attn::cluster {
namespace {

constexpr int64_t kHeads = 4;
constexpr int64_t kTokens = 16;
constexpr int64_t kDim = 32;
// Of 16 and more terms in F32; a wrong answer is off by 0.1 and more.
constexpr double kTolerance = 1e-4;

std::vector<double> Widened(const HostTensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

// [tokens, heads, dim] as [heads, tokens, dim].
std::vector<double> HeadsFirst(const std::vector<float>& rows, int64_t heads,
                               int64_t dim) {
  const auto tokens = static_cast<int64_t>(rows.size()) / (heads * dim);
  std::vector<double> turned;
  turned.reserve(rows.size());
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t token = 0; token < tokens; ++token) {
      const auto row = rows.begin() + (token * heads + head) * dim;
      turned.insert(turned.end(), row, row + dim);
    }
  }
  return turned;
}

}  // namespace

HostTensor RandomTensor(const Shape& shape, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal;
  HostTensor tensor(DType::kF32, shape);
  for (float& value : tensor.values<float>()) value = normal(bits);
  return tensor;
}

std::vector<double> LastToken(const HostTensor& q,
                              const std::vector<float>& keys,
                              const std::vector<float>& values) {
  const int64_t heads = q.shape()[1];
  const int64_t dim = q.shape()[3];
  oracle::Case call;
  call.q_heads = call.kv_heads = heads;
  call.kv_length = static_cast<int64_t>(keys.size()) / (heads * dim);
  call.qk_dim = call.v_dim = dim;
  call.q = Widened(q);
  call.k = HeadsFirst(keys, heads, dim);
  call.v = HeadsFirst(values, heads, dim);
  return oracle::Attend(call).output;
}

bool IsClose(const HostTensor& got, const std::vector<double>& want) {
  const std::vector<double> values = Widened(got);
  if (values.size() != want.size()) return false;
  for (size_t i = 0; i < want.size(); ++i) {
    // Not what compares false with everything.
    if (!(std::abs(values[i] - want[i]) <= kTolerance)) return false;
  }
  return true;
}

Problem::Problem(uint64_t seed)
    : q_(RandomTensor(Shape{1, kHeads, kTokens, kDim}, 3 * seed)),
      k_(RandomTensor(Shape{1, kHeads, kTokens, kDim}, 3 * seed + 1)),
      v_(RandomTensor(Shape{1, kHeads, kTokens, kDim}, 3 * seed + 2)) {
  message_.args.q = q_.view();
  message_.args.k = k_.view();
  message_.args.v = v_.view();
  message_.spec.masks = {CausalMask{Alignment::kTopLeft}};
  message_.wanted.output = true;
  oracle::Case call;
  call.q_heads = call.kv_heads = kHeads;
  call.q_length = call.kv_length = kTokens;
  call.qk_dim = call.v_dim = kDim;
  call.q = Widened(q_);
  call.k = Widened(k_);
  call.v = Widened(v_);
  call.bands = {{.left = std::nullopt, .right = 0}};
  expected_ = oracle::Attend(call).output;
}

bool Problem::IsRight(const AttendResult& answer) const {
  const auto output = OutputOf(answer, "output");
  if (!output.ok() || !IsClose(*output, expected_)) return false;
  const std::vector<std::byte> bits(output->data(),
                                    output->data() + output->byte_count());
  const std::lock_guard lock(mutex_);
  if (bits_.empty()) bits_ = bits;
  return bits == bits_;
}

}  // namespace attn::cluster
