#include "server/metrics/layer_series.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

constexpr char kOther[] = "other";

// A row of each head.
std::vector<ObservedHead> Heads(size_t count) {
  return std::vector<ObservedHead>(
      count,
      ObservedHead{.rows = 1, .entropy_ratios = 0.5, .peak_weights = 0.25});
}

std::string WrittenLayers(const LayerSeries& series) {
  TextPage page;
  series.Write(page);
  return page.text();
}

double LayerRows(const LayerSeries& series, const std::string& layer,
                 const std::string& head) {
  return ValueOf(WrittenLayers(series),
                 "attn_layer_row_max_weight_count{head=\"" + head +
                     "\",layer=\"" + layer + "\"}");
}

TEST(LayerSeries, SumsAreByLayerAndHead) {
  LayerSeries series;
  const std::vector<ObservedHead> heads = {{.rows = 4,
                                            .saturated_rows = 3,
                                            .entropy_ratios = 0.5,
                                            .peak_weights = 3.5},
                                           {.rows = 2,
                                            .saturated_rows = 0,
                                            .entropy_ratios = 1.5,
                                            .peak_weights = 0.75}};
  series.HeadsObserved("a", heads);
  series.HeadsObserved("a", heads);
  const std::string page = WrittenLayers(series);
  const auto value = [&page](const std::string& name, int head) {
    return ValueOf(
        page, name + "{head=\"" + std::to_string(head) + "\",layer=\"a\"}");
  };
  EXPECT_EQ(value("attn_layer_row_entropy_ratio_sum", 0), 1);
  EXPECT_EQ(value("attn_layer_row_entropy_ratio_count", 0), 8);
  EXPECT_EQ(value("attn_layer_row_entropy_ratio_sum", 1), 3);
  EXPECT_EQ(value("attn_layer_row_max_weight_sum", 1), 1.5);
  EXPECT_EQ(value("attn_layer_row_max_weight_count", 1), 4);
  EXPECT_EQ(value("attn_layer_saturated_rows_total", 0), 6);
  EXPECT_EQ(value("attn_layer_saturated_rows_total", 1), 0);
}

TEST(LayerSeries, PlacesGoToLayersInTheOrderOfTheirFirstUse) {
  LayerSeries series;
  series.HeadsObserved("first", Heads(kMaxLayerHeads - 1));
  series.HeadsObserved("second", Heads(3));
  series.HeadsObserved("third", Heads(2));
  series.HeadsObserved("first", Heads(kMaxLayerHeads - 1));
  EXPECT_EQ(LayerRows(series, "first", "0"), 2);
  EXPECT_EQ(LayerRows(series, "first", std::to_string(kMaxLayerHeads - 2)), 2);
  EXPECT_EQ(LayerRows(series, "second", "0"), 1);
  EXPECT_EQ(LayerRows(series, "second", "1"), -1);
  EXPECT_EQ(LayerRows(series, "third", "0"), -1);
  EXPECT_EQ(LayerRows(series, kOther, kOther), 4);
}

TEST(LayerSeries, ALayerThatIsReplacedByOneOfMoreHeadsGrows) {
  LayerSeries series;
  series.HeadsObserved("a", Heads(2));
  series.HeadsObserved("b", Heads(1));
  series.HeadsObserved("a", Heads(4));
  series.HeadsObserved("a", Heads(1));
  EXPECT_EQ(LayerRows(series, "a", "0"), 3);
  EXPECT_EQ(LayerRows(series, "a", "3"), 1);
  EXPECT_EQ(LayerRows(series, kOther, kOther), 0);
}

TEST(LayerSeries, ALayerNamedOtherIsNotTheOthers) {
  LayerSeries series;
  series.HeadsObserved(kOther, Heads(1));
  EXPECT_EQ(LayerRows(series, kOther, "0"), 1);
  EXPECT_EQ(LayerRows(series, kOther, kOther), 0);
}

TEST(LayerSeries, NoRowIsLostWhereThreadsMeetAtTheEndOfTheBudget) {
  constexpr size_t kThreads = 4;
  constexpr size_t kHeads = 7;
  constexpr size_t kLayers = kMaxLayerHeads / kHeads + 9;
  LayerSeries series;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&series] {
      for (size_t i = 0; i < kLayers; ++i) {
        series.HeadsObserved(std::to_string(i), Heads(kHeads));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string page = WrittenLayers(series);
  const std::string name = "attn_layer_row_max_weight_count{";
  double rows = 0;
  size_t series_count = 0;
  for (size_t at = page.find(name); at != std::string::npos;
       at = page.find(name, at + 1)) {
    rows += std::stod(page.substr(page.find("} ", at) + 2));
    ++series_count;
  }
  EXPECT_EQ(series_count, kMaxLayerHeads + 1);
  EXPECT_EQ(rows, static_cast<double>(kThreads * kLayers * kHeads));
}

}  // namespace
}  // namespace attn
