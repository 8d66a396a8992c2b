// The flags of `attn inspect` that say what to look at.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/codec/inspect_codec.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line. Thread-compatible.
struct InspectFlags {
  std::vector<std::string> views;
  std::string part;
  std::string tile;
  std::string pool = "mean";
  std::vector<double> sweep;
};

void AddInspectFlags(CLI::App& command, InspectFlags& flags);

// What the flags mean. Without a view: the weights.
absl::StatusOr<InspectQuestion> ReadQuestion(const InspectFlags& flags);

// "batch,head,query,key", each "begin:end", "index" or ":" for all, e.g.
// "0,3,:64,128:192". Ends may be left away from the right: "0,3".
absl::StatusOr<v1::InspectWindow> ParsePart(const std::string& text);

// One of them. Errors name `flag`.
absl::Status ParseIndexRange(const std::string& text, const std::string& flag,
                             v1::IndexRange& range);

}  // namespace attn
