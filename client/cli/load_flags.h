// The flags of `attn load`, and what they mean together.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/load_session_flags.h"
#include "client/load/call_class.h"
#include "client/load/load_session.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line. Thread-compatible.
struct LoadFlags {
  std::string shape = "1,4,4,16,16,32";
  std::string dtype = "f32";
  bool causal = false;
  std::string profile;
  uint64_t seed = 1;
  int payloads = 4;
  LoadSessionFlags sessions;
  double rate = 0;
  int closed = 0;
  std::string steps;
  std::string ramp;
  std::string arrivals = "poisson";
  std::string duration = "10s";
  std::string warmup = "1s";
  int connections = 1;
  int max_in_flight = 4096;
  int verify_every = 100;
  std::string slo;
  std::string slo_range;
  std::string slo_tolerance = "5%";
  int slo_runs = 20;
  std::string csv;
  std::string html;
  std::string histogram_out;
  std::vector<std::string> merge;
  // Names of those that were given: "--rate".
  std::set<std::string> given;
};

void AddLoadFlags(CLI::App& command, LoadFlags& flags);

// Call when the command line has been parsed.
void NoteGivenFlags(const CLI::App& command, LoadFlags& flags);

// What is to be run.
struct LoadJob {
  std::vector<CallClass> classes;
  LoadPlan plan;
};

// INVALID_ARGUMENT names the flag that is wrong, or that makes no sense beside
// another. Reads the --profile file. Not for --merge.
absl::StatusOr<LoadJob> ReadLoadFlags(const LoadFlags& flags);

// Of --merge and the files to be written.
absl::Status CheckMergeFlags(const LoadFlags& flags);
// Whether the report files can be written: better known before the load.
absl::Status CheckReportFiles(const LoadFlags& flags);

}  // namespace attn
