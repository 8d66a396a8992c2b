#include "tests/engine/projections/projection_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "engine/core/half.h"
#include "gtest/gtest.h"

namespace attn::testing {
namespace {

void Put(double value, DType dtype, std::byte* to) {
  const auto single = static_cast<float>(value);
  const uint16_t half = dtype == DType::kF16 ? ToF16(single) : ToBF16(single);
  if (dtype == DType::kF64) {
    std::memcpy(to, &value, sizeof(value));
  } else if (dtype == DType::kF32) {
    std::memcpy(to, &single, sizeof(single));
  } else {
    std::memcpy(to, &half, sizeof(half));
  }
}

double Get(const std::byte* from, DType dtype) {
  double value = 0;
  float single = 0;
  uint16_t half = 0;
  if (dtype == DType::kF64) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  if (dtype == DType::kF32) {
    std::memcpy(&single, from, sizeof(single));
    return static_cast<double>(single);
  }
  std::memcpy(&half, from, sizeof(half));
  return static_cast<double>(dtype == DType::kF16 ? FromF16(half)
                                                  : FromBF16(half));
}

}  // namespace

Numbers SomeNumbers(const Shape& shape, uint32_t seed) {
  std::minstd_rand random(seed);
  Numbers numbers{shape, {}};
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    const auto step = static_cast<int>(random() / 16 % 129) - 64;
    numbers.values.push_back(step / 64.0);
  }
  return numbers;
}

Numbers Through(const Numbers& x, const Numbers& weight, const Numbers* bias) {
  const int64_t out = weight.shape[0];
  const int64_t in = weight.shape[1];
  Numbers y{{x.shape[0], x.shape[1], out}, {}};
  for (int64_t row = 0; row < x.shape[0] * x.shape[1]; ++row) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias == nullptr ? 0 : bias->values[static_cast<size_t>(o)];
      for (int64_t i = 0; i < in; ++i) {
        sum += x.values[static_cast<size_t>(row * in + i)] *
               weight.values[static_cast<size_t>(o * in + i)];
      }
      y.values.push_back(sum);
    }
  }
  return y;
}

Numbers ByHead(const Numbers& rows, int64_t heads) {
  const int64_t batch = rows.shape[0];
  const int64_t length = rows.shape[1];
  const int64_t width = rows.shape[2] / heads;
  Numbers result{{batch, heads, length, width}, {}};
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t s = 0; s < length; ++s) {
        const auto at =
            static_cast<size_t>(((b * length + s) * heads + h) * width);
        for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
          result.values.push_back(rows.values[at + i]);
        }
      }
    }
  }
  return result;
}

Numbers Joined(const Numbers& heads) {
  const Shape& s = heads.shape;
  // Back is the same walk with heads and rows exchanged.
  Numbers exchanged{{s[0], s[1], s[2] * s[3]}, heads.values};
  Numbers result = ByHead(exchanged, s[2]);
  result.shape = {s[0], s[2], s[1] * s[3]};
  return result;
}

Numbers Columns(const Numbers& x, int64_t from, int64_t width) {
  const int64_t all = x.shape[x.shape.rank() - 1];
  Numbers result{{x.shape[0], x.shape[1], width}, {}};
  for (int64_t row = 0; row < x.shape[0] * x.shape[1]; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      result.values.push_back(
          x.values[static_cast<size_t>(row * all + from + i)]);
    }
  }
  return result;
}

Numbers RmsNormed(const Numbers& x, const Numbers& gain, double eps) {
  const size_t width = gain.values.size();
  Numbers result = x;
  for (size_t row = 0; row < x.values.size(); row += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) {
      squares += x.values[row + i] * x.values[row + i];
    }
    const double norm = std::sqrt(squares / static_cast<double>(width) + eps);
    for (size_t i = 0; i < width; ++i) {
      result.values[row + i] = x.values[row + i] / norm * gain.values[i];
    }
  }
  return result;
}

Numbers Attended(const Numbers& q, const Numbers& k, const Numbers& v,
                 bool causal) {
  oracle::Case call;
  call.batch = q.shape[0];
  call.q_heads = q.shape[1];
  call.kv_heads = k.shape[1];
  call.q_length = q.shape[2];
  call.kv_length = k.shape[2];
  call.qk_dim = q.shape[3];
  call.v_dim = v.shape[3];
  call.q = q.values;
  call.k = k.values;
  call.v = v.values;
  if (causal) {
    call.bands.push_back(
        {.left = std::nullopt, .right = 0, .bottom_right = true});
  }
  return {{call.batch, call.q_heads, call.q_length, call.v_dim},
          oracle::Attend(call).output};
}

TensorView ProjectionCall::Store(const Numbers& numbers) {
  const size_t size = SizeOf(dtype_);
  storage_.push_back(std::make_unique<std::vector<std::byte>>(
      numbers.values.size() * size + 1));
  std::byte* data = storage_.back()->data();
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    Put(numbers.values[i], dtype_, data + i * size);
  }
  return TensorView::Dense(data, dtype_, numbers.shape);
}

uint32_t ProjectionCall::AddInput(const Numbers& numbers) {
  args_.inputs.push_back(Store(numbers));
  return static_cast<uint32_t>(args_.inputs.size() - 1);
}

LinearLayer ProjectionCall::AddLayer(const Numbers& weight,
                                     const Numbers* bias) {
  LinearLayer layer;
  layer.weight = AddInput(weight);
  if (bias != nullptr) layer.bias = AddInput(*bias);
  return layer;
}

absl::StatusOr<std::shared_ptr<const Plan>> ProjectionCall::MakePlan(
    Engine& engine, bool head_output) const {
  OutputSelection selection;
  selection.head_output = head_output;
  return engine.Plan(spec_, args_, selection,
                     dtype_ == DType::kF64 ? DType::kF64 : DType::kF32);
}

Numbers ProjectionCall::Run(int workers, Numbers* head_output) const {
  Engine engine({.workers = workers});
  const auto plan = MakePlan(engine, head_output != nullptr);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const Problem& problem = (*plan)->problem;
  const DType dtype = problem.output_dtype;
  const AttentionShape& s = problem.shape;
  Numbers output{problem.OutputShape(), {}};
  Numbers heads{{s.batch, s.q_heads, s.q_length, s.v_dim}, {}};
  // Bytes that no number is made of, so that what is not written is seen.
  std::vector<std::byte> room(
      static_cast<size_t>(output.shape.element_count()) * SizeOf(dtype) + 1,
      std::byte{0xff});
  std::vector<std::byte> heads_room(
      static_cast<size_t>(heads.shape.element_count()) * SizeOf(dtype) + 1,
      std::byte{0xff});
  AttentionOutputs outputs;
  outputs.output = MutableTensorView::Dense(room.data(), dtype, output.shape);
  if (head_output != nullptr) {
    outputs.head_output =
        MutableTensorView::Dense(heads_room.data(), dtype, heads.shape);
  }
  const CallReport report = engine.Run(*plan, args_, outputs);
  EXPECT_TRUE(report.status.ok()) << report.status;
  for (int64_t i = 0; i < output.shape.element_count(); ++i) {
    output.values.push_back(
        Get(room.data() + static_cast<size_t>(i) * SizeOf(dtype), dtype));
  }
  for (int64_t i = 0; i < heads.shape.element_count(); ++i) {
    heads.values.push_back(
        Get(heads_room.data() + static_cast<size_t>(i) * SizeOf(dtype), dtype));
  }
  if (head_output != nullptr) *head_output = std::move(heads);
  return output;
}

CallReport ProjectionCall::Report(const OutputSelection& selection,
                                  DType output_dtype) const {
  Engine engine({.workers = 1});
  const auto plan = engine.Plan(spec_, args_, selection, output_dtype);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const AttentionShape& s = (*plan)->problem.shape;
  const Shape heads = {s.batch, s.q_heads, s.q_length, s.v_dim};
  const Shape whole = (*plan)->problem.OutputShape();
  std::vector<std::byte> room(static_cast<size_t>(whole.element_count()) * 8);
  std::vector<std::byte> by_head(static_cast<size_t>(heads.element_count()) *
                                 8);
  AttentionOutputs outputs;
  if (selection.output) {
    outputs.output = MutableTensorView::Dense(room.data(), output_dtype, whole);
  }
  if (selection.head_output) {
    outputs.head_output =
        MutableTensorView::Dense(by_head.data(), output_dtype, heads);
  }
  return engine.Run(*plan, args_, outputs);
}

double Distance(const Numbers& a, const Numbers& b) {
  double largest = 0;
  if (!(a.shape == b.shape) || a.values.size() != b.values.size()) {
    return std::numeric_limits<double>::infinity();
  }
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double difference = std::abs(a.values[i] - b.values[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace attn::testing
