#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/metrics/layer_series.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/variant_series.h"
#include "server/rpc/call_observer.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

// What stands before the value of each line.
std::set<std::string> SeriesOf(const std::string& page) {
  std::set<std::string> series;
  for (size_t begin = 0; begin < page.size();) {
    const size_t end = page.find('\n', begin);
    const std::string line = page.substr(begin, end - begin);
    if (line[0] != '#') series.insert(line.substr(0, line.rfind(' ')));
    begin = end + 1;
  }
  return series;
}

// What a caller can choose, or an attacker: none of it may become a series.
class SeriesCountTest : public ::testing::Test {
 protected:
  SeriesCountTest() {
    MetricsInfo info;
    info.methods = {{"Attend", AllVariantNames()}, {"Plan", AllVariantNames()}};
    info.row_variants = AllVariantNames();
    info.codes = {"OK", "CANCELLED"};
    const auto zero = [] { return 0.0; };
    std::string error;
    server_ = StartMetricsServer("127.0.0.1:0", info, {zero, zero, zero, zero},
                                 &error);
    EXPECT_NE(server_, nullptr) << error;
    observer_ = std::make_unique<CallObserver>(
        CallObserverOptions{.log_requests = false, .entropy_sample_rate = 1},
        server_->metrics(), log_);
    RowStatistics row;
    row.visible_keys = 4;
    row.entropy = 0.5;
    row.peak_weight = 0.5;
    row.lse = 0;
    rows_.assign(2, row);
  }

  void Call(const CallRecord& record, const std::string& layer) {
    ComputedRows computed;
    computed.variant = record.variant;
    computed.layer = layer;
    computed.rows = rows_;
    computed.heads = 2;
    computed.length = 1;
    observer_->Started();
    observer_->RowsComputed(computed);
    observer_->Ended(record);
  }
  std::set<std::string> Series() { return SeriesOf(Scrape(server_->port())); }

  std::unique_ptr<MetricsServer> server_;
  const LineLog log_{LogFormat::kText, [](const std::string&) {}};
  std::unique_ptr<CallObserver> observer_;
  std::vector<RowStatistics> rows_;
};

TEST_F(SeriesCountTest, JunkIdsNamesAndMethodsAddNoSeries) {
  constexpr int kCalls = 100000;
  CallRecord record;
  record.method = "Attend";
  record.compute = absl::Seconds(1);
  // The first layers have series of their own, up to the budget.
  for (size_t i = 0; i < kMaxLayerHeads; ++i) {
    Call(record, "layer" + std::to_string(i));
  }
  const std::set<std::string> before = Series();
  for (int i = 0; i < kCalls; ++i) {
    const std::string junk = "junk" + std::to_string(i);
    record.request_id = junk;
    record.trace_id = junk;
    record.tenant = junk;
    record.kernel = junk;
    record.shape = junk;
    record.variant = junk;
    record.method = i % 2 == 0 ? "Attend" : junk;
    record.status = i % 3 == 0 ? absl::OkStatus() : absl::UnknownError(junk);
    Call(record, junk);
  }
  const std::string page = Scrape(server_->port());
  EXPECT_EQ(SeriesOf(page), before);
  EXPECT_EQ(page.find("junk"), std::string::npos);
  // All of it was counted.
  EXPECT_EQ(ValueOf(page, "attn_row_max_weight_count{variant=\"other\"}"),
            2 * (kCalls + static_cast<double>(kMaxLayerHeads)));
}

TEST_F(SeriesCountTest, EveryVariantThereIsMakesSeriesWithinTheBudget) {
  const size_t before = Series().size();
  for (const char* method : {"Attend", "Plan"}) {
    for (const std::string& variant : AllVariantNames()) {
      CallRecord record;
      record.method = method;
      record.variant = variant;
      Call(record, "");
    }
  }
  // Of a variant: two codes and 35 buckets, +Inf, sum and count by method;
  // twice 20 buckets, +Inf, sum and count, and saturated rows.
  constexpr size_t kOfVariant = 2 * (2 + 35 + 3) + 2 * (20 + 3) + 1;
  EXPECT_EQ(Series().size() - before, kMaxVariants * kOfVariant);
}

}  // namespace
}  // namespace attn
