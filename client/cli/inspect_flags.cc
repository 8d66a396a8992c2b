#include "client/cli/inspect_flags.h"

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/choices.h"
#include "client/library/inspection.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr size_t kAxes = 4;

struct PoolRow {
  const char* name;
  v1::Pooling value;
};

constexpr PoolRow kPools[] = {
    {"mean", v1::POOLING_MEAN},
    {"max", v1::POOLING_MAX},
    {"min", v1::POOLING_MIN},
    {"sum", v1::POOLING_SUM},
};

constexpr char kViewsGroup[] = "Views";

std::vector<std::string> PoolNames() {
  std::vector<std::string> names;
  for (const PoolRow& pool : kPools) names.emplace_back(pool.name);
  return names;
}

// Empty text: `to` stays.
bool ParseIndex(absl::string_view text, int64_t* to) {
  return text.empty() || absl::SimpleAtoi(text, to);
}

absl::StatusOr<v1::InspectTiles> ParseTiles(const InspectFlags& flags) {
  v1::InspectTiles tiles;
  const std::vector<std::string> sides = absl::StrSplit(flags.tile, ',');
  int64_t queries = 0;
  int64_t keys = 0;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &queries) ||
      !absl::SimpleAtoi(sides[1], &keys)) {
    return FieldError("--tile", absl::StrCat("\"", flags.tile, "\""),
                      "\"queries,keys\"");
  }
  tiles.set_query_tile(queries);
  tiles.set_key_tile(keys);
  for (const PoolRow& pool : kPools) {
    if (flags.pool == pool.name) tiles.set_pooling(pool.value);
  }
  if (tiles.pooling() == v1::POOLING_UNSPECIFIED) {
    return FieldError("--pool", absl::StrCat("\"", flags.pool, "\""),
                      "mean, max, min or sum");
  }
  return tiles;
}

}  // namespace

absl::Status ParseIndexRange(const std::string& text, const std::string& flag,
                             v1::IndexRange& range) {
  const absl::Status error = FieldError(flag, absl::StrCat("\"", text, "\""),
                                        "\"begin:end\", an index or \":\"");
  const size_t colon = text.find(':');
  int64_t begin = 0;
  int64_t end = 0;
  if (colon == std::string::npos) {
    if (!absl::SimpleAtoi(text, &begin)) return error;
    range.set_begin(begin);
    range.set_end(begin + 1);
    return absl::OkStatus();
  }
  const std::string last = text.substr(colon + 1);
  if (!ParseIndex(text.substr(0, colon), &begin) || !ParseIndex(last, &end)) {
    return error;
  }
  range.set_begin(begin);
  if (!last.empty()) range.set_end(end);
  return absl::OkStatus();
}

void AddInspectFlags(CLI::App& command, InspectFlags& flags) {
  command
      .add_option("--view", flags.views,
                  "What to look at; weights if none is named")
      ->delimiter(',')
      ->transform(OneOf(ViewNames()))
      ->type_name("NAME")
      ->group(kViewsGroup);
  command
      .add_option("--part", flags.part,
                  "Part of the scores: batch,head,query,key, each "
                  "begin:end, an index or : for all, e.g. 0,3,:64,128:")
      ->type_name("PART")
      ->group(kViewsGroup);
  command
      .add_option("--tile", flags.tile,
                  "Pool tiles of so many queries and keys to one number")
      ->type_name("QUERIES,KEYS")
      ->group(kViewsGroup);
  command.add_option("--pool", flags.pool, "How --tile pools")
      ->transform(OneOf(PoolNames()))
      ->capture_default_str()
      ->group(kViewsGroup);
  command
      .add_option("--sweep", flags.sweep,
                  "Temperatures to compute the statistics at")
      ->delimiter(',')
      ->type_name(kNumberType)
      ->group(kViewsGroup);
}

absl::StatusOr<v1::InspectWindow> ParsePart(const std::string& text) {
  v1::InspectWindow window;
  if (text.empty()) return window;
  const std::vector<std::string> axes = absl::StrSplit(text, ',');
  if (axes.size() > kAxes) {
    return FieldError("--part", absl::StrCat("\"", text, "\""),
                      "batch,head,query,key");
  }
  v1::IndexRange* const ranges[kAxes] = {
      window.mutable_batch(), window.mutable_head(), window.mutable_query(),
      window.mutable_key()};
  for (size_t i = 0; i < axes.size(); ++i) {
    absl::Status status = ParseIndexRange(axes[i], "--part", *ranges[i]);
    if (!status.ok()) return status;
  }
  return window;
}

absl::StatusOr<InspectQuestion> ReadQuestion(const InspectFlags& flags) {
  InspectQuestion question;
  question.views.weights = flags.views.empty();
  for (const std::string& name : flags.views) {
    absl::Status status = WantView(name, question.views);
    if (!status.ok()) return status;
  }
  auto window = ParsePart(flags.part);
  if (!window.ok()) return window.status();
  question.window = *std::move(window);
  if (!flags.tile.empty()) {
    auto tiles = ParseTiles(flags);
    if (!tiles.ok()) return tiles.status();
    question.tiles = *std::move(tiles);
  }
  question.sweep_temperatures = flags.sweep;
  return question;
}

}  // namespace attn
