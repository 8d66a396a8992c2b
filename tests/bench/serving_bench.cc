// What a real server adds to a call, what it takes from it under load, and what
// a user might take instead: rows of ratios, each measured in one run.
//
//   attn-serving-bench [--rows tiny,transport,...] [--json FILE] [--markdown]
//
// The servers are processes of their own on the loopback. Rounds are
// interleaved: what disturbs one disturbs all.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tests/bench/keep_memory.h"
#include "tests/bench/serving/bench_row.h"
#include "tests/bench/serving/bench_rows.h"
#include "tests/bench/serving/bench_servers.h"

namespace attn {
namespace {

struct NamedRow {
  const char* name;
  BenchRow (*measure)(const ServingSetting& setting);
};

constexpr NamedRow kRows[] = {
    {"tiny", TinyRow},        {"transport", TransportRow},
    {"large", LargeRow},      {"prefill", PrefillRow},
    {"lone", LoneCallerRow},  {"fill", BatchFillRow},
    {"first", FirstCallsRow}, {"torch", TorchRow},
    {"start", StartRow},      {"session", SessionRow},
    {"open", OpenSessionRow}, {"story", StoryRow},
};

struct BenchFlags {
  ServingSetting setting;
  std::vector<std::string> rows;
  std::string json;
  bool markdown = false;
};

std::vector<std::string> RowNames() {
  std::vector<std::string> names;
  for (const NamedRow& row : kRows) names.push_back(row.name);
  return names;
}

void AddFlags(CLI::App& app, BenchFlags& flags) {
  ServingSetting& setting = flags.setting;
  app.add_option("--attn-server", setting.attn_server, "The server's program")
      ->capture_default_str();
  app.add_option("--peers-root", setting.peers_root,
                 "Root folder made by peers/setup.sh");
  app.add_option("--rows", flags.rows, "Only these")
      ->delimiter(',')
      ->check(CLI::IsMember(RowNames()));
  app.add_option("--rounds", setting.rounds)
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", setting.seconds, "Of one measurement")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--json", flags.json, "Also write it to this file as JSON");
  app.add_flag("--markdown", flags.markdown,
               "Also print the figures that have goals as a table");
}

bool Wanted(const BenchFlags& flags, const std::string& name) {
  if (flags.rows.empty()) return true;
  return std::find(flags.rows.begin(), flags.rows.end(), name) !=
         flags.rows.end();
}

void WriteJson(const std::string& path, const std::vector<BenchRow>& rows) {
  std::ofstream file(path);
  file << ToJson(rows).dump(2) << "\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures attn-server beside a bare echo, itself and PyTorch");
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  BenchFlags flags;
  flags.setting.attn_server = folder / "attn-server";
  flags.setting.echo_server = folder / "attn-echo-server";
  AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  std::vector<BenchRow> rows;
  for (const NamedRow& row : kRows) {
    if (!Wanted(flags, row.name)) continue;
    rows.push_back(row.measure(flags.setting));
    std::printf("%s\n", ToText(rows.back()).c_str());
    std::fflush(stdout);
  }
  if (flags.markdown) std::printf("%s", ToMarkdown(rows).c_str());
  if (!flags.json.empty()) WriteJson(flags.json, rows);
  return 0;
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  try {
    attn::KeepFreedMemory();
    return attn::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attn-serving-bench: %s\n", error.what());
    return 1;
  }
}
