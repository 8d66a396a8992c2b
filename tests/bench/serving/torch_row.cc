#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/closed_loop.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

constexpr char kServer[] = "opt/attn-peers/torch_server.py";
constexpr double kLeastSmall = 5;
constexpr double kLeastLarge = 1.3;

struct TorchLoad {
  const char* label;
  const char* shape;
  LoopLoad load;
  double goal;
};

constexpr TorchLoad kLoads[] = {
    {"tiny, one caller", kTinyShape, {1, 1}, kLeastSmall},
    {"tiny, 16 callers", kTinyShape, {4, 16}, kLeastSmall},
    {"(1,8,8,512,512,64), one caller", kLargeShape, {1, 1}, kLeastLarge},
    {"(1,8,8,512,512,64), 4 callers", kLargeShape, {4, 4}, kLeastLarge},
};

constexpr size_t kServers = 3;

// `series` are those of one load: ours, and the peer's by processes.
void AddRatio(const TorchLoad& load, const BenchSeries* series, BenchRow& row) {
  for (size_t i = 0; i < kServers; ++i) {
    row.Add(series[i].name, Median(series[i].values), "calls/s");
  }
  // Of the peer's two the one that is faster.
  const double ratio =
      std::min(MedianRatio(series[0].values, series[1].values),
               MedianRatio(series[0].values, series[2].values));
  row.AddAtLeast(absl::StrCat("  calls/s to PyTorch's, ", load.label), ratio,
                 "x", load.goal);
}

}  // namespace

BenchRow TorchRow(const ServingSetting& setting) {
  BenchRow row("torch",
               "a gRPC server in Python around PyTorch's "
               "scaled_dot_product_attention");
  if (geteuid() != 0 || setting.peers_root.empty() ||
      !std::filesystem::exists(setting.peers_root + "/" + kServer)) {
    row.skipped =
        "no root folder of peers/setup.sh in --peers-root, or no right to "
        "enter it";
    return row;
  }
  const ServingProcess attn = StartAttn(setting);
  const ServingProcess torch = StartTorch(setting, 1);
  const ServingProcess torches =
      StartTorch(setting, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<BenchSeries> series;
  for (const TorchLoad& load : kLoads) {
    const grpc::ByteBuffer request = RequestOf(ProfileOf(load.shape));
    const auto add = [&](const char* name, const ServingProcess& server) {
      const auto loop =
          std::make_shared<ClosedLoop>(server.address, load.load, request);
      series.emplace_back(absl::StrCat(name, ", ", load.label),
                          [loop, &setting] {
                            return loop->Run(setting.seconds).calls_per_second;
                          });
    };
    add("ours", attn);
    add("PyTorch in one process", torch);
    add("PyTorch in a process for each core", torches);
  }
  MeasureInRounds(setting.rounds, series);
  for (size_t load = 0; load < std::size(kLoads); ++load) {
    AddRatio(kLoads[load], &series[load * kServers], row);
  }
  row.series = std::move(series);
  return row;
}

}  // namespace attn
