// What the peers' benches in C++ share: random numbers, the rule by which calls
// are timed, the formula.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "peer_shape.h"

namespace peers {

// Normal values; tensors begin elsewhere in the same table.
inline std::vector<float> Normal(size_t count, size_t tensor) {
  static const std::vector<float> table = [] {
    std::vector<float> values(1 << 16);
    std::mt19937 generator(0);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(generator);
    return values;
  }();
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = table[(7 * i + 997 * tensor) % table.size()];
  }
  return numbers;
}

inline double SecondsOf(int runs, const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) run();
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - begin;
  return time.count() / runs;
}

struct Options {
  std::string peer, dtype;
  int threads;
  double budget;
};

// The rule of timed_runs.cc. Prints all of a CSV line but its end.
inline void PrintTimes(const Options& options, const Shape& shape,
                       const std::function<void()>& run) {
  run();
  const double once = std::max(SecondsOf(1, run), 1e-9);
  const int unmeasured = std::min(20, static_cast<int>(0.1 / once));
  for (int i = 0; i < unmeasured; ++i) run();
  const int in_window = std::max(1, static_cast<int>(2e-4 / once));
  const double fitting = options.budget / (once * in_window);
  const int windows =
      std::clamp(static_cast<int>(fitting), once > 1 ? 1 : 3, 2000);
  std::vector<double> times;
  for (int i = 0; i < windows; ++i) {
    times.push_back(1e3 * SecondsOf(in_window, run));
  }
  std::sort(times.begin(), times.end());
  std::printf("%s,%s,%s,%d,%.5f,%.5f,%d", options.peer.c_str(),
              shape.name.c_str(), options.dtype.c_str(), options.threads,
              times[times.size() / 2], times[0], windows);
}

// [batch, heads, rows, columns]: numbers as they were computed with or came
// out.
struct Tensor {
  int heads, rows, columns;
  std::vector<float> numbers;

  size_t Index(int b, int head, int row, int column) const {
    const size_t line = (static_cast<size_t>(b) * heads + head) * rows + row;
    return line * columns + column;
  }
  double At(int b, int head, int row, int column) const {
    return numbers[Index(b, head, row, column)];
  }
};

// The bias is empty where there is none.
struct Call {
  Tensor q, k, v, bias, out;
};

// Softmax weights of the row by the formula.
inline std::vector<double> WeightsOf(const Shape& s, const Call& call, int b,
                                     int head, int row) {
  std::vector<double> weights(s.kv_length);
  double largest = -INFINITY, sum = 0;
  for (int j = 0; j < s.kv_length; ++j) {
    double x = 0;
    for (int c = 0; c < s.dim; ++c) {
      x += call.q.At(b, head, row, c) * call.k.At(b, head / s.group(), j, c);
    }
    x /= std::sqrt(static_cast<double>(s.dim));
    if (s.mode == "bias") x += call.bias.At(b, head, row, j);
    weights[j] = s.Visible(b, row, j) ? x : -INFINITY;
    largest = std::max(largest, weights[j]);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// The largest difference from the formula in the first and the last row of the
// last head.
inline double ErrorOf(const Shape& s, const Call& call) {
  const int b = s.batch - 1, head = s.q_heads - 1;
  double error = 0;
  for (const int row : {0, s.q_length - 1}) {
    const std::vector<double> weights = WeightsOf(s, call, b, head, row);
    for (int c = 0; c < s.dim; ++c) {
      double x = 0;
      for (int j = 0; j < s.kv_length; ++j) {
        x += weights[j] * call.v.At(b, head / s.group(), j, c);
      }
      error = std::max(error, std::abs(x - call.out.At(b, head, row, c)));
    }
  }
  return error;
}

}  // namespace peers
