#include "tests/testing/random_case.h"

#include <cmath>
#include <iterator>
#include <limits>

namespace attn::oracle {
namespace {

double Uniform(Random& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

bool Chance(Random& random, double share) { return Uniform(random) < share; }

template <typename T, size_t kCount>
T OneOf(Random& random, const T (&values)[kCount]) {
  return values[Below(random, kCount)];
}

// [B, Hq, Sq, Sk] with some extents 1 and leading ones left out.
std::vector<int64_t> BroadcastShape(Random& random, const Case& call) {
  const int64_t full[4] = {call.batch, call.q_heads, call.q_length,
                           call.kv_length};
  std::vector<int64_t> shape;
  for (int64_t axis = Below(random, 4); axis < 4; ++axis) {
    shape.push_back(Chance(random, 0.3) ? 1 : full[axis]);
  }
  return shape;
}

int64_t ElementCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

Tensor RandomBias(Random& random, const Case& call) {
  Tensor bias;
  bias.shape = BroadcastShape(random, call);
  bias.data = Normal(random, ElementCount(bias.shape));
  for (double& value : bias.data) {
    value = static_cast<double>(static_cast<float>(value));
    if (Chance(random, 0.05)) value = -std::numeric_limits<double>::infinity();
  }
  return bias;
}

std::vector<int64_t> RandomLengths(Random& random, int64_t batch,
                                   int64_t longest) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; ++b) {
    lengths.push_back(Below(random, longest + 1));
  }
  return lengths;
}

Band RandomBand(Random& random, const Case& call) {
  Band band;
  if (Chance(random, 0.5)) {
    band.right = 0;
  } else {
    band.left = Below(random, call.kv_length + 2);
    if (Chance(random, 0.7)) band.right = Below(random, call.kv_length + 2);
  }
  band.bottom_right = Chance(random, 0.5);
  return band;
}

void AddStages(Random& random, Case& call) {
  if (Chance(random, 0.3)) call.scale = OneOf(random, {0.0, 0.3, -0.2, 1.0});
  if (Chance(random, 0.3)) call.softcap = OneOf(random, {0.7, 5.0, 50.0});
  if (Chance(random, 0.3))
    call.dense_biases.push_back(RandomBias(random, call));
  if (Chance(random, 0.3)) call.alibi_biases.emplace_back();
  if (Chance(random, 0.5)) call.bands.push_back(RandomBand(random, call));
  if (Chance(random, 0.3)) {
    call.dense_masks.push_back(RandomMask(random, call, 0.7));
  }
  if (Chance(random, 0.3)) {
    call.q_lengths = RandomLengths(random, call.batch, call.q_length);
  }
  if (Chance(random, 0.4)) {
    call.kv_lengths = RandomLengths(random, call.batch, call.kv_length);
  }
  if (Chance(random, 0.2)) call.temperatures = {0.5};
  if (Chance(random, 0.2)) {
    call.temperatures.assign(static_cast<size_t>(call.q_heads), 1.5);
    call.temperatures[0] = 0.8;
  }
}

}  // namespace

std::vector<double> Normal(Random& random, int64_t count) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    // Box and Muller 1958.
    const double radius = std::sqrt(-2 * std::log(Uniform(random)));
    const double angle = 2 * 3.14159265358979323846 * Uniform(random);
    values.push_back(radius * std::cos(angle));
  }
  return values;
}

int64_t Below(Random& random, int64_t bound) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

void FillTensors(Random& random, Case& call) {
  const int64_t queries = call.batch * call.q_heads * call.q_length;
  const int64_t keys = call.batch * call.kv_heads * call.kv_length;
  call.q = Normal(random, queries * call.qk_dim);
  call.k = Normal(random, keys * call.qk_dim);
  call.v = Normal(random, keys * call.v_dim);
}

Tensor RandomMask(Random& random, const Case& call, double share) {
  Tensor mask;
  mask.shape = BroadcastShape(random, call);
  for (int64_t i = 0; i < ElementCount(mask.shape); ++i) {
    mask.data.push_back(Chance(random, share) ? 1 : 0);
  }
  return mask;
}

Case RandomCase(Random& random) {
  Case call;
  call.batch = OneOf(random, {1, 2, 3});
  call.kv_heads = OneOf(random, {1, 2});
  call.q_heads = call.kv_heads * OneOf(random, {1, 3, 4, 8});
  call.q_length = OneOf(random, {1, 2, 17, 31, 65, 70});
  call.kv_length = OneOf(random, {1, 3, 17, 64, 100, 130});
  call.qk_dim = OneOf(random, {1, 8, 33, 64, 65, 192});
  call.v_dim =
      Chance(random, 0.5) ? call.qk_dim : OneOf(random, {1, 16, 33, 64});
  FillTensors(random, call);
  AddStages(random, call);
  return call;
}

}  // namespace attn::oracle
