// What is counted by variant: requests, by method and code too, and sampled
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/metrics/metrics.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/name_table.h"
#include "server/metrics/text_page.h"

namespace attn {

// How many values the label `variant` may take beside "other": 24 with it. A
// server that meets all the variants there are would else make a hundred times
// as many series.
inline constexpr size_t kMaxVariants = 23;

// What counts the variants that are over the budget or were not announced.
inline constexpr char kOtherVariant[] = "other";

// A variant takes its place with its first call, and keeps it. Only the series
// of "other" are there from the start, and those of info.initial_variants;
// those of a method and a variant come with the first call of both.
// Thread-safe: only the first call waits, for another such, and nobody for
// Write().
class VariantSeries {
 public:
  explicit VariantSeries(const MetricsInfo& info);
  ~VariantSeries();

  // `code` is an index of info.codes. Of a method that was not announced
  // nothing is counted.
  void RequestEnded(std::string_view method, std::string_view variant, int code,
                    double seconds);
  void RowsObserved(std::string_view variant,
                    std::span<const ObservedRow> rows);
  void Write(TextPage& page) const;

 private:
  struct Requests;
  struct Rows;
  struct OfVariant;
  // A bit for each method, and one for rows.
  using Places = uint64_t;

  std::unique_ptr<OfVariant> MakeVariant(std::string_view name,
                                         Places announced) const;
  // Its own, or other's.
  OfVariant& Of(std::string_view variant);
  Requests& RequestsOf(OfVariant& variant, size_t method);
  Rows& RowsOf(OfVariant& variant);
  template <typename Visit>
  void ForEachVariant(Visit visit) const;
  void WriteRequests(TextPage& page) const;
  void WriteRows(TextPage& page) const;

  std::vector<std::string> methods_;
  // 'code="OK",'
  std::vector<std::string> code_labels_;
  std::map<std::string, Places, std::less<>> announced_;
  std::unique_ptr<OfVariant> other_;
  NameTable<OfVariant> variants_;
};

}  // namespace attn
