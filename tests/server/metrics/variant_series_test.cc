#include "server/metrics/variant_series.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

std::vector<std::string> NumberedNames(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("v" + std::to_string(i));
  return names;
}

MetricsInfo Announcing(const std::vector<std::string>& variants) {
  MetricsInfo info;
  info.methods = {{"Attend", variants}, {"Plan", variants}, {"Info", {"none"}}};
  info.row_variants = variants;
  info.codes = {"OK", "CANCELLED"};
  return info;
}

std::string WrittenVariants(const VariantSeries& series) {
  TextPage page;
  series.Write(page);
  return page.text();
}

double OkRequests(const VariantSeries& series, const std::string& method,
                  const std::string& variant) {
  return ValueOf(WrittenVariants(series),
                 "attn_requests_total{code=\"OK\",method=\"" + method +
                     "\",variant=\"" + variant + "\"}");
}

TEST(VariantSeries, OnlyOtherIsThereBeforeThereIsAVariant) {
  const VariantSeries series(Announcing({"a", "b"}));
  EXPECT_EQ(OkRequests(series, "Attend", "other"), 0);
  EXPECT_EQ(OkRequests(series, "Info", "other"), 0);
  EXPECT_EQ(OkRequests(series, "Attend", "a"), -1);
  EXPECT_EQ(ValueOf(WrittenVariants(series),
                    "attn_saturated_rows_total{variant=\"other\"}"),
            0);
}

TEST(VariantSeries, InitialOnesAreThereAtZeroUnderTheirMethods) {
  MetricsInfo info = Announcing({"a", "b"});
  info.initial_variants = {"a", "none"};
  const VariantSeries series(info);
  EXPECT_EQ(OkRequests(series, "Attend", "a"), 0);
  EXPECT_EQ(OkRequests(series, "Info", "none"), 0);
  EXPECT_EQ(OkRequests(series, "Info", "a"), -1);
  EXPECT_EQ(OkRequests(series, "Attend", "b"), -1);
}

TEST(VariantSeries, AMethodOfAVariantComesWithItsFirstCallAndAllItsCodes) {
  VariantSeries series(Announcing({"a", "b"}));
  series.RequestEnded("Attend", "a", 0, 0.5);
  const std::string page = WrittenVariants(series);
  EXPECT_EQ(OkRequests(series, "Attend", "a"), 1);
  EXPECT_EQ(ValueOf(page,
                    "attn_requests_total{code=\"CANCELLED\",method="
                    "\"Attend\",variant=\"a\"}"),
            0);
  EXPECT_EQ(OkRequests(series, "Plan", "a"), -1);
  EXPECT_EQ(ValueOf(page, "attn_row_max_weight_count{variant=\"a\"}"), -1);
}

TEST(VariantSeries, WhatWasNotAnnouncedIsOther) {
  VariantSeries series(Announcing({"a"}));
  for (const char* variant : {"junk", "", "none", "other"}) {
    series.RequestEnded("Attend", variant, 0, 0.5);
  }
  EXPECT_EQ(OkRequests(series, "Attend", "other"), 4);
  series.RequestEnded("junk", "a", 0, 0.5);
  EXPECT_EQ(OkRequests(series, "Attend", "a"), -1);
}

TEST(VariantSeries, AnUnknownCodeIsTimedAndNotCounted) {
  VariantSeries series(Announcing({"a"}));
  for (const int code : {-1, 2, 1000}) {
    series.RequestEnded("Attend", "a", code, 0.5);
  }
  EXPECT_EQ(OkRequests(series, "Attend", "a"), 0);
  EXPECT_EQ(ValueOf(WrittenVariants(series),
                    "attn_request_duration_seconds_count{method=\"Attend\","
                    "variant=\"a\"}"),
            3);
}

TEST(VariantSeries, BeyondTheBudgetAVariantIsOtherForGood) {
  const std::vector<std::string> names = NumberedNames(kMaxVariants + 2);
  VariantSeries series(Announcing(names));
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) {
      series.RequestEnded("Attend", name, 0, 0.5);
      series.RowsObserved(name, {});
    }
  }
  EXPECT_EQ(OkRequests(series, "Attend", names[kMaxVariants - 1]), 2);
  EXPECT_EQ(OkRequests(series, "Attend", names[kMaxVariants]), -1);
  EXPECT_EQ(OkRequests(series, "Attend", "other"), 4);
}

TEST(VariantSeries, OneNameTakesOnePlaceInAllFamilies) {
  const std::vector<std::string> names = NumberedNames(kMaxVariants);
  VariantSeries series(Announcing(names));
  for (const std::string& name : names) {
    series.RequestEnded("Attend", name, 0, 0.5);
    series.RequestEnded("Plan", name, 0, 0.5);
  }
  for (const std::string& name : names) {
    EXPECT_EQ(OkRequests(series, "Attend", name), 1);
    EXPECT_EQ(OkRequests(series, "Plan", name), 1);
  }
}

TEST(VariantSeries, RowsAreCountedWithThoseThatAreSaturated) {
  VariantSeries series(Announcing({"a"}));
  const std::vector<ObservedRow> rows = {
      {.entropy_ratio = 0.5, .peak_weight = 0.25},
      {.entropy_ratio = 0, .peak_weight = 1, .saturated = true}};
  series.RowsObserved("a", rows);
  series.RowsObserved("junk", rows);
  const std::string page = WrittenVariants(series);
  EXPECT_EQ(ValueOf(page, "attn_row_max_weight_sum{variant=\"a\"}"), 1.25);
  EXPECT_EQ(ValueOf(page, "attn_row_max_weight_count{variant=\"a\"}"), 2);
  EXPECT_EQ(ValueOf(page, "attn_row_entropy_ratio_sum{variant=\"a\"}"), 0.5);
  EXPECT_EQ(
      ValueOf(page, "attn_row_entropy_ratio_bucket{variant=\"a\",le=\"0.45\"}"),
      1);
  EXPECT_EQ(ValueOf(page, "attn_saturated_rows_total{variant=\"a\"}"), 1);
  EXPECT_EQ(ValueOf(page, "attn_saturated_rows_total{variant=\"other\"}"), 1);
}

TEST(VariantSeries, NoCallIsLostWhileThreadsMeetAndAScraperReads) {
  constexpr int kThreads = 4;
  const std::vector<std::string> names = NumberedNames(kMaxVariants);
  VariantSeries series(Announcing(names));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&series, &names] {
      for (const std::string& name : names) {
        series.RequestEnded("Attend", name, 0, 0.5);
      }
    });
  }
  std::string page;
  for (int i = 0; i < 20; ++i) page = WrittenVariants(series);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(page.empty());
  for (const std::string& name : names) {
    EXPECT_EQ(OkRequests(series, "Attend", name), kThreads);
  }
}

}  // namespace
}  // namespace attn
