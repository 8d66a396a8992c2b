// What the machine can do at the moment, as CSV:
//
//   attn-limits [--threads N] [--read BYTES,BYTES...]
//
//   limit,fma,THREADS,MEDIAN,BEST          multiply-adds, GFLOP/s
//   limit,exp,THREADS,MEDIAN,BEST          exponentials, 1e9 a second
//   limit,read:BYTES,THREADS,MEDIAN,BEST   reads of so much memory, GB/s
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/bench/fma_peak.h"
#include "tests/bench/huge_buffer.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr int kRegisterRounds = 61;
constexpr int kReadRounds = 11;

// So that no call is left out.
volatile float sink;

// Seconds from the moment that all threads are there until all are through.
double Together(int threads, const std::function<void(int)>& work) {
  std::atomic<int> waiting{0};
  const auto meet = [&] {
    ++waiting;
    while (waiting < threads) std::this_thread::yield();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) {
    others.emplace_back([&, i] {
      meet();
      work(i);
    });
  }
  meet();
  const auto begin = std::chrono::steady_clock::now();
  work(0);
  for (std::thread& other : others) other.join();
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - begin;
  return time.count();
}

// `amount` of all threads in one round, in 1e9.
void Report(const std::string& what, int threads, int rounds, double amount,
            const std::function<void(int)>& work) {
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) {
    rates.push_back(amount / Together(threads, work));
  }
  std::printf("limit,%s,%d,%.3f,%.3f\n", what.c_str(), threads, Median(rates),
              *std::max_element(rates.begin(), rates.end()));
  std::fflush(stdout);
}

void ReportReads(int threads, size_t bytes) {
  const HugeBuffer memory(bytes);
  const auto* numbers = reinterpret_cast<const float*>(memory.data());
  const size_t share = bytes / sizeof(float) / static_cast<size_t>(threads);
  const size_t part = share / 64 * 64;
  Report("read:" + std::to_string(bytes), threads, kReadRounds,
         static_cast<double>(part * sizeof(float)) * threads / 1e9, [&](int i) {
           sink = ReadAll(numbers + part * static_cast<size_t>(i), part);
         });
}

// A round of several calls, long enough to be timed.
void ReportCalls(const std::string& what, int threads, int64_t in_call,
                 float (*call)()) {
  constexpr int kCalls = 8;
  Report(what, threads, kRegisterRounds,
         static_cast<double>(in_call) * kCalls * threads / 1e9, [&](int) {
           for (int i = 0; i < kCalls; ++i) sink = call();
         });
}

void ReportAll(int threads, const std::vector<size_t>& reads) {
  ReportCalls("fma", threads, FmaFlops(), SpinFma);
  ReportCalls("exp", threads, ExpCount(), SpinExp);
  for (const size_t bytes : reads) ReportReads(threads, bytes);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures what this machine can do at most");
  int threads = 1;
  std::vector<size_t> reads;
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--read", reads, "Sizes in bytes")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  ReportAll(threads, reads);
  return 0;
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) { return attn::Main(argc, argv); }
