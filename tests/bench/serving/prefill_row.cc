#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/load/hdr_histogram.h"
#include "tests/bench/probe.h"
#include "tests/bench/serving/bench_calls.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/closed_loop.h"
#include "tests/bench/serving/rounds.h"
#include "tests/bench/statistics.h"

namespace attn {
namespace {

// Few tokens and many: a server may tell them apart by that.
constexpr const char* kPrefills[] = {"1,8,8,512,512,64", "1,8,8,2048,2048,64"};
// More than there are workers, so that one always waits.
constexpr LoopLoad kPrefillLoad{.connections = 1, .callers = 4};
constexpr double kMedian = 50;
constexpr double kTail = 99;
constexpr double kMostSlowdown = 3;

// Tiny calls to one server, perhaps beside a prefill.
class TinyCaller {
 public:
  TinyCaller(const std::string& address, grpc::ByteBuffer request,
             double seconds)
      : channel_(ChannelTo(address)),
        request_(std::move(request)),
        seconds_(seconds) {}

  // Measures p99 in microseconds; p50 goes to `medians`. Null: no prefill.
  BenchSeries Series(const std::string& name, ClosedLoop* prefill,
                     std::vector<double>& medians) const {
    return {name, [this, prefill, &medians] {
              if (prefill != nullptr) prefill->Start();
              const HdrHistogram times = TimesFor(
                  seconds_, RemoteCall(channel_, kAttendMethod, request_));
              if (prefill != nullptr) prefill->Stop();
              medians.push_back(MicrosAt(times, kMedian));
              return MicrosAt(times, kTail);
            }};
  }

 private:
  const RawChannel channel_;
  const grpc::ByteBuffer request_;
  const double seconds_;
};

}  // namespace

BenchRow PrefillRow(const ServingSetting& setting) {
  const grpc::ByteBuffer tiny = RequestOf(ProfileOf(kTinyShape));
  const ServingProcess attn = StartAttn(setting);
  const ServingProcess echo =
      StartEcho(setting, AnswerBytes(attn.address, tiny));
  // The percentile needs some thousand calls.
  const TinyCaller to_attn(attn.address, tiny, 2 * setting.seconds);
  const TinyCaller to_echo(echo.address, tiny, 2 * setting.seconds);
  std::vector<std::unique_ptr<ClosedLoop>> prefills;
  for (const char* shape : kPrefills) {
    prefills.push_back(std::make_unique<ClosedLoop>(
        attn.address, kPrefillLoad, RequestOf(ProfileOf(shape))));
  }
  std::vector<double> medians[6];
  std::vector<BenchSeries> series = {
      to_attn.Series("tiny call alone", nullptr, medians[0]),
      to_attn.Series(absl::StrCat("tiny call beside ", kPrefills[0]),
                     prefills[0].get(), medians[1]),
      to_attn.Series(absl::StrCat("tiny call beside ", kPrefills[1]),
                     prefills[1].get(), medians[2]),
      to_echo.Series("echo alone", nullptr, medians[3]),
      to_echo.Series(absl::StrCat("echo beside ", kPrefills[0]),
                     prefills[0].get(), medians[4]),
      to_echo.Series(absl::StrCat("echo beside ", kPrefills[1]),
                     prefills[1].get(), medians[5])};
  MeasureInRounds(setting.rounds, series);
  BenchRow row("prefill",
               "tiny calls while another connection has 4 calls in flight");
  for (size_t i = 0; i < series.size(); ++i) {
    const bool ours = i < 3;
    const BenchSeries& alone = series[ours ? 0 : 3];
    row.Add(series[i].name + ", p50", Median(medians[i]), "us");
    row.Add(series[i].name + ", p99", Median(series[i].values), "us");
    if (&series[i] == &alone) continue;
    const double ratio = MedianRatio(series[i].values, alone.values);
    if (ours) {
      row.AddAtMost(absl::StrCat(series[i].name, ", p99 to alone"), ratio, "x",
                    kMostSlowdown);
    } else {
      row.Add("  p99 to alone", ratio, "x");
    }
  }
  row.series = std::move(series);
  return row;
}

}  // namespace attn
