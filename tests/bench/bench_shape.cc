#include "tests/bench/bench_shape.h"

#include <array>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attn {
namespace {

constexpr size_t kColumns = 10;
constexpr size_t kModeColumn = 7;

absl::StatusOr<BenchShape> ParseLine(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, ',');
  if (fields.size() != kColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", line, "\": expected ", kColumns, " columns"));
  }
  std::array<int64_t, kModeColumn - 1> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!absl::SimpleAtoi(fields[i + 1], &numbers[i]) || numbers[i] <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", line, "\": ", fields[i + 1], " is no extent"));
    }
  }
  BenchShape result;
  result.name = fields[0];
  result.shape = {.batch = numbers[0],
                  .q_heads = numbers[1],
                  .kv_heads = numbers[2],
                  .q_length = numbers[3],
                  .kv_length = numbers[4],
                  .q_dim = numbers[5],
                  .k_dim = numbers[5],
                  .v_dim = numbers[5]};
  result.mode = fields[kModeColumn];
  result.dtypes = absl::StrSplit(fields[kModeColumn + 1], '+');
  return result;
}

}  // namespace

std::vector<int64_t> BenchShape::Lengths() const {
  std::vector<int64_t> lengths;
  if (mode != "pad" && mode != "ragged") return lengths;
  for (int64_t b = 0; b < shape.batch; ++b) {
    lengths.push_back(shape.kv_length - (mode == "pad" ? 9 * b % 64 : 61 * b));
  }
  return lengths;
}

absl::StatusOr<std::vector<BenchShape>> ReadBenchShapes(
    const std::string& path) {
  std::ifstream stream(path);
  std::vector<BenchShape> shapes;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    auto shape = ParseLine(line);
    if (!shape.ok()) return shape.status();
    shapes.push_back(*std::move(shape));
  }
  if (shapes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no shapes"));
  }
  return shapes;
}

}  // namespace attn
