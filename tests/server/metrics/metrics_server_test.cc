#include "server/metrics/metrics_server.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/layer_series.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// Of codes.
constexpr int kOk = 0;

constexpr ObservedRow kRow = {.entropy_ratio = 0.5, .peak_weight = 0.25};

class MetricsServerTest : public ::testing::Test {
 protected:
  MetricsServerTest() {
    MetricsInfo info;
    info.version = "1.2.3";
    info.queue_capacity = 7;
    info.methods = {{"Attend", {"dot", "rare"}}, {"Info", {"none"}}};
    info.row_variants = {"dot", "rare"};
    info.initial_variants = {"dot", "none"};
    info.codes = {"OK", "INTERNAL"};
    const GaugeSources sources = {
        .queue_depth = [this] { return depth_; },
        .queue_oldest_age_seconds = [] { return 0.5; },
        .inflight_bytes = [] { return 1024.0; },
        .compute_busy_seconds = [] { return 2.5; }};
    std::string error;
    server_ = StartMetricsServer("127.0.0.1:0", info, sources, &error);
    EXPECT_NE(server_, nullptr) << error;
  }

  Metrics& metrics() { return server_->metrics(); }
  double Value(const std::string& series) {
    return ValueOf(Scrape(server_->port()), series);
  }

  double depth_ = 3;
  std::unique_ptr<MetricsServer> server_;
};

std::string Requests(const std::string& code, const std::string& method,
                     const std::string& variant) {
  return "attn_requests_total{code=\"" + code + "\",method=\"" + method +
         "\",variant=\"" + variant + "\"}";
}

TEST_F(MetricsServerTest, TheFirstSeriesAreThereAtZeroFromTheStart) {
  const std::string page = Scrape(server_->port());
  EXPECT_EQ(ValueOf(page, Requests("OK", "Attend", "other")), 0);
  EXPECT_EQ(ValueOf(page, "attn_row_max_weight_count{variant=\"dot\"}"), 0);
  EXPECT_EQ(ValueOf(page, Requests("INTERNAL", "Attend", "dot")), 0);
  EXPECT_EQ(ValueOf(page, Requests("OK", "Info", "none")), 0);
  EXPECT_EQ(ValueOf(page,
                    "attn_requests_rejected_total"
                    "{reason=\"deadline_unmeetable\"}"),
            0);
  EXPECT_EQ(ValueOf(page, "attn_nonfinite_inputs_total{tensor=\"k\"}"), 0);
  EXPECT_EQ(ValueOf(page, "attn_dead_heads_total{reason=\"uninformative\"}"),
            0);
  EXPECT_EQ(ValueOf(page,
                    "attn_layer_saturated_rows_total"
                    "{head=\"other\",layer=\"other\"}"),
            0);
  EXPECT_EQ(ValueOf(page,
                    "attn_phase_duration_seconds_count"
                    "{phase=\"encode_send\"}"),
            0);
}

TEST_F(MetricsServerTest, ARequestIsCountedByMethodVariantAndCode) {
  metrics().RequestStarted();
  EXPECT_EQ(Value("attn_inflight_requests"), 1);
  metrics().RequestEnded("Attend", "dot", kOk, 0.001);
  EXPECT_EQ(Value("attn_inflight_requests"), 0);
  EXPECT_EQ(Value(Requests("OK", "Attend", "dot")), 1);
  EXPECT_EQ(Value("attn_request_duration_seconds_sum"
                  "{method=\"Attend\",variant=\"dot\"}"),
            0.001);
}

TEST_F(MetricsServerTest, AnAnnouncedVariantHasSeriesFromItsFirstCallOn) {
  EXPECT_EQ(Value(Requests("OK", "Attend", "rare")), -1);
  metrics().RequestStarted();
  metrics().RequestEnded("Attend", "rare", kOk, 0.001);
  metrics().RowsObserved("rare", {&kRow, 1});
  const std::string page = Scrape(server_->port());
  EXPECT_EQ(ValueOf(page, Requests("OK", "Attend", "rare")), 1);
  EXPECT_EQ(ValueOf(page, Requests("INTERNAL", "Attend", "rare")), 0);
  EXPECT_EQ(ValueOf(page, "attn_row_max_weight_sum{variant=\"rare\"}"), 0.25);
}

TEST_F(MetricsServerTest, JunkNamesAddNoSeriesOnceTheBudgetOfLayersIsSpent) {
  constexpr size_t kJunk = 100000;
  const std::vector<ObservedHead> heads(2, ObservedHead{.rows = 1});
  for (size_t i = 0; i < kMaxLayerHeads; ++i) {
    metrics().HeadsObserved("layer" + std::to_string(i), heads);
  }
  const std::string before = Scrape(server_->port());
  for (size_t i = 0; i < kJunk; ++i) {
    const std::string name = "junk" + std::to_string(i);
    metrics().RequestStarted();
    metrics().RequestEnded("Attend", name, kOk, 0.001);
    metrics().RequestEnded(name, name, static_cast<int>(i), 0.001);
    metrics().RowsObserved(name, {&kRow, 1});
    metrics().HeadsObserved(name, heads);
  }
  const std::string after = Scrape(server_->port());
  EXPECT_EQ(ValueOf(after, Requests("OK", "Attend", "other")), kJunk);
  EXPECT_EQ(ValueOf(after, "attn_row_max_weight_count{variant=\"other\"}"),
            kJunk);
  EXPECT_EQ(std::count(before.begin(), before.end(), '\n'),
            std::count(after.begin(), after.end(), '\n'));
}

TEST_F(MetricsServerTest, GaugesAreReadAtEachScrape) {
  EXPECT_EQ(Value("attn_queue_depth"), 3);
  depth_ = 4;
  EXPECT_EQ(Value("attn_queue_depth"), 4);
  EXPECT_EQ(Value("attn_queue_capacity"), 7);
  EXPECT_EQ(Value("attn_compute_busy_seconds_total"), 2.5);
}

TEST_F(MetricsServerTest, TheVerbsReachTheirSeries) {
  metrics().BatchFormed(2, 96, 5);
  metrics().BytesReceived(10);
  metrics().BytesSent(20);
  metrics().PayloadCopies(3);
  metrics().ComputeDone(1e6);
  metrics().FullyMaskedRows(4);
  metrics().NonfiniteInputs(InputTensor::kV, 5);
  metrics().NonfiniteOutputs(6);
  metrics().RequestRejected(RejectReason::kDraining);
  metrics().DeadHeads(DeadReason::kConstantLogits, 7);
  metrics().PhaseEnded(Phase::kSend, 0.25);
  const std::string page = Scrape(server_->port());
  EXPECT_EQ(ValueOf(page, "attn_batch_tokens_bucket{le=\"64\"}"), 0);
  EXPECT_EQ(ValueOf(page, "attn_batch_tokens_bucket{le=\"128\"}"), 1);
  EXPECT_EQ(ValueOf(page, "attn_batch_requests_sum"), 2);
  EXPECT_EQ(ValueOf(page, "attn_batch_ready_requests_total"), 5);
  EXPECT_EQ(ValueOf(page, "attn_received_bytes_total"), 10);
  EXPECT_EQ(ValueOf(page, "attn_sent_bytes_total"), 20);
  EXPECT_EQ(ValueOf(page, "attn_payload_copies_total"), 3);
  EXPECT_EQ(ValueOf(page, "attn_compute_flops_total"), 1e6);
  EXPECT_EQ(ValueOf(page, "attn_fully_masked_rows_total"), 4);
  EXPECT_EQ(ValueOf(page, "attn_nonfinite_inputs_total{tensor=\"v\"}"), 5);
  EXPECT_EQ(ValueOf(page, "attn_nonfinite_outputs_total"), 6);
  EXPECT_EQ(ValueOf(page, "attn_requests_rejected_total{reason=\"draining\"}"),
            1);
  EXPECT_EQ(ValueOf(page, "attn_dead_heads_total{reason=\"constant_logits\"}"),
            7);
  EXPECT_EQ(
      ValueOf(page, "attn_phase_duration_seconds_sum{phase=\"encode_send\"}"),
      0.25);
}

TEST_F(MetricsServerTest, ATakenPortGivesOneClearLine) {
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  std::string error;
  EXPECT_EQ(StartMetricsServer(address, {}, {}, &error), nullptr);
  EXPECT_THAT(error, HasSubstr(address));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST_F(MetricsServerTest, VerbsWorkAfterThePortIsClosed) {
  const int port = server_->port();
  server_->StopListening();
  EXPECT_EQ(Scrape(port), "");
  metrics().RequestStarted();
  metrics().RequestEnded("Attend", "dot", kOk, 0.001);
}

#ifdef ATTN_PROMTOOL
TEST_F(MetricsServerTest, PromtoolFindsNothingToSay) {
  const std::string file = ::testing::TempDir() + "/attn_metrics_page.txt";
  FILE* page = std::fopen(file.c_str(), "w");
  ASSERT_NE(page, nullptr);
  std::fputs(Scrape(server_->port()).c_str(), page);
  std::fclose(page);
  const std::string command =
      std::string(ATTN_PROMTOOL) + " check metrics < " + file;
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
}
#endif

}  // namespace
}  // namespace attn
