#include "client/cli/heatmap_flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/attend_inputs.h"
#include "client/cli/choices.h"
#include "client/cli/inspect_flags.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

struct PoolChoice {
  const char* name;
  v1::Pooling pooling;
};

// Sums are left out: theirs is 0 where every key is masked.
constexpr PoolChoice kPoolChoices[] = {{"max", v1::POOLING_MAX},
                                       {"mean", v1::POOLING_MEAN},
                                       {"min", v1::POOLING_MIN}};

// "3" or "5-7".
bool ParseHeadRange(absl::string_view text, int64_t& first, int64_t& last) {
  const size_t dash = text.find('-');
  if (dash == absl::string_view::npos) {
    if (!absl::SimpleAtoi(text, &first)) return false;
    last = first;
    return true;
  }
  return absl::SimpleAtoi(text.substr(0, dash), &first) &&
         absl::SimpleAtoi(text.substr(dash + 1), &last);
}

absl::Status ReadSpan(const std::string& text, const std::string& flag,
                      int64_t extent, int64_t& begin, int64_t& count) {
  v1::IndexRange range;
  absl::Status status = ParseIndexRange(text, flag, range);
  if (!status.ok()) return status;
  const int64_t end = range.has_end() ? range.end() : extent;
  if (range.begin() < 0 || range.begin() >= end || end > extent) {
    return FieldError(flag, absl::StrCat("\"", text, "\""),
                      absl::StrCat("a part of 0:", extent));
  }
  begin = range.begin();
  count = end - begin;
  return absl::OkStatus();
}

absl::Status CheckLimit(const std::string& flag,
                        const std::optional<double>& limit) {
  if (!limit || (*limit > 0 && std::isfinite(*limit))) return absl::OkStatus();
  return FieldError(flag, absl::StrCat(*limit), "a number > 0");
}

// Fewer names than indices are those of the first.
absl::Status CheckNames(const std::string& flag,
                        const std::vector<std::string>& names, int64_t most,
                        const char* what) {
  if (static_cast<int64_t>(names.size()) <= most) return absl::OkStatus();
  return FieldError(flag, absl::StrCat(names.size(), " tokens"),
                    absl::StrCat("at most ", most, ", one for each ", what));
}

}  // namespace

void AddHeatmapFlags(CLI::App& command, HeatmapFlags& flags) {
  const auto add = [&command](const char* name, auto& value, std::string help) {
    return command.add_option(name, value, std::move(help))
        ->group("Figure")
        ->capture_default_str();
  };
  add("--output", flags.output,
      "Write FILE.png or FILE.svg; without it draw on the terminal")
      ->type_name(kFileType);
  add("--what", flags.what, "What to draw of each head")
      ->transform(OneOf({"logits", "weights", "both"}));
  add("--batch", flags.batch, "Batch entry");
  add("--heads", flags.heads,
      absl::StrCat("Query heads, e.g. 0,2,5-7; the first ", kMostHeads,
                   " if none is named"))
      ->type_name("HEAD,...");
  add("--rows", flags.rows, "Queries: begin:end, an index, or : for all")
      ->type_name("BEGIN:END");
  add("--columns", flags.columns, "Keys, likewise")->type_name("BEGIN:END");
  add("--pool", flags.pool,
      "Where a cell holds several queries or keys: which of the values that "
      "may be seen it shows")
      ->transform(OneOf({"max", "mean", "min"}));
  add("--max-weight", flags.max_weight,
      "Upper end of the weights' colours; the greatest if not given")
      ->type_name(kNumberType);
  add("--max-logit", flags.max_logit,
      "End of the logits' colours, on both sides of 0; likewise")
      ->type_name(kNumberType);
  const struct {
    const char* name;
    std::string& path;
    const char* help;
  } files[] = {
      {"--tokens", flags.tokens,
       "Names of the keys, and of the queries as the last of them: a JSON "
       "list of strings, or one a line"},
      {"--query-tokens", flags.query_tokens,
       "Names of the queries, if they are others"},
      {"--key-tokens", flags.key_tokens, "Names of the keys"},
      {"--font", flags.font,
       "TrueType or OpenType font; DejaVu Sans if not given"},
  };
  for (const auto& file : files) {
    add(file.name, file.path, file.help)->type_name(kFileType);
  }
  command
      .add_option("--title", flags.title,
                  "Title; the input file's name if not given")
      ->group("Figure");
  add("--cell-size", flags.size.cell_size,
      "Pixels of a cell's side; 0: as large as fits")
      ->type_name("PIXELS");
  add("--max-size", flags.size.max_size,
      "Pixels that the figure is wide and high at most")
      ->type_name("PIXELS");
}

absl::StatusOr<std::vector<int64_t>> ParseHeads(const std::string& text,
                                                int64_t count) {
  std::vector<int64_t> heads;
  if (text.empty()) {
    for (int64_t h = 0; h < std::min(count, kMostHeads); ++h) {
      heads.push_back(h);
    }
    return heads;
  }
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    int64_t first = 0;
    int64_t last = 0;
    if (!ParseHeadRange(part, first, last)) {
      return FieldError("--heads", absl::StrCat("\"", text, "\""),
                        "heads and ranges of heads, e.g. 0,2,5-7");
    }
    if (first < 0 || last < first || last >= count) {
      return FieldError("--heads", absl::StrCat("\"", part, "\""),
                        absl::StrCat("heads of 0-", count - 1));
    }
    for (int64_t h = first; h <= last; ++h) heads.push_back(h);
  }
  std::sort(heads.begin(), heads.end());
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  return heads;
}

absl::StatusOr<ScoreQuestion> ReadScoreQuestion(const HeatmapFlags& flags,
                                                const AttentionShape& shape) {
  if (shape.batch == 0 || shape.q_heads == 0 || shape.q_length == 0 ||
      shape.kv_length == 0) {
    return FieldError(
        "q.shape",
        absl::StrCat(shape.batch, " batch entries, ", shape.q_heads, " heads, ",
                     shape.q_length, " queries, ", shape.kv_length, " keys"),
        "one or more of each: there is nothing to draw");
  }
  ScoreQuestion question;
  if (flags.batch < 0 || flags.batch >= shape.batch) {
    return FieldError("--batch", absl::StrCat(flags.batch),
                      absl::StrCat("0 to ", shape.batch - 1));
  }
  question.batch = flags.batch;
  auto heads = ParseHeads(flags.heads, shape.q_heads);
  if (!heads.ok()) return heads.status();
  question.heads = *std::move(heads);
  for (const absl::Status& status :
       {ReadSpan(flags.rows, "--rows", shape.q_length, question.query_begin,
                 question.query_count),
        ReadSpan(flags.columns, "--columns", shape.kv_length,
                 question.key_begin, question.key_count)}) {
    if (!status.ok()) return status;
  }
  for (const absl::Status& status :
       {CheckLimit("--max-weight", flags.max_weight),
        CheckLimit("--max-logit", flags.max_logit)}) {
    if (!status.ok()) return status;
  }
  question.logits = flags.what != "weights";
  question.weights = flags.what != "logits";
  for (const PoolChoice& choice : kPoolChoices) {
    if (flags.pool == choice.name) question.pooling = choice.pooling;
  }
  return question;
}

absl::StatusOr<FigureKind> KindOfOutput(const std::string& path) {
  if (path.empty()) return FigureKind::kTerminal;
  const std::string name = absl::AsciiStrToLower(path);
  if (absl::EndsWith(name, ".png")) return FigureKind::kPng;
  if (absl::EndsWith(name, ".svg")) return FigureKind::kSvg;
  return FieldError("--output", absl::StrCat("\"", path, "\""),
                    "a name that ends in .png or .svg");
}

absl::StatusOr<TokenNames> ReadTokenNames(const HeatmapFlags& flags,
                                          const AttentionShape& shape) {
  TokenNames names;
  const auto read = [](const std::string& path, std::vector<std::string>& to) {
    if (path.empty()) return absl::OkStatus();
    auto tokens = ReadTokens(path);
    if (!tokens.ok()) return tokens.status();
    to = *std::move(tokens);
    return absl::OkStatus();
  };
  absl::Status status = read(flags.tokens, names.keys);
  if (status.ok()) {
    status = CheckNames("--tokens", names.keys, shape.kv_length, "key");
  }
  // Queries are the last of the keys' positions if there are fewer.
  const int64_t offset = std::max<int64_t>(shape.kv_length - shape.q_length, 0);
  if (static_cast<int64_t>(names.keys.size()) > offset) {
    names.queries.assign(names.keys.begin() + offset, names.keys.end());
  }
  if (status.ok()) status = read(flags.key_tokens, names.keys);
  if (status.ok()) status = read(flags.query_tokens, names.queries);
  if (status.ok()) {
    status = CheckNames("--key-tokens", names.keys, shape.kv_length, "key");
  }
  if (status.ok()) {
    status =
        CheckNames("--query-tokens", names.queries, shape.q_length, "query");
  }
  if (!status.ok()) return status;
  return names;
}

}  // namespace attn
