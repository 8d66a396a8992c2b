// The scores of a few heads, as a server shows them to a figure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/library/attention_client.h"
#include "proto/codec/inspect_codec.h"

namespace attn {

// What to look at. Ranges lie within the call's shape and are not empty.
struct ScoreQuestion {
  int64_t batch = 0;
  // Ascending, each once.
  std::vector<int64_t> heads;
  int64_t query_begin = 0;
  int64_t query_count = 0;
  int64_t key_begin = 0;
  int64_t key_count = 0;
  // Queries and keys that are pooled to one number.
  int64_t query_step = 1;
  int64_t key_step = 1;
  // MEAN, MAX or MIN; of no account where both steps are 1.
  v1::Pooling pooling = v1::POOLING_MAX;
  bool logits = true;
  bool weights = true;

  bool pools() const { return query_step > 1 || key_step > 1; }
  // Cells of a head.
  int64_t rows() const { return (query_count + query_step - 1) / query_step; }
  int64_t columns() const { return (key_count + key_step - 1) / key_step; }
};

// Of one head: [rows, columns] row-major, of what was asked for.
struct SeenHead {
  int64_t head = 0;
  std::vector<double> logits;
  std::vector<double> weights;
  // No key of the cell may be seen.
  std::vector<bool> masked;
};

struct SeenScores {
  std::vector<SeenHead> heads;
  v1::CallReport report;
};

// Asks by one Inspect, or by two where a pooled NaN may stand for no key or for
// keys that are not finite. Errors are the server's.
absl::StatusOr<SeenScores> SeeScores(const AttentionClient& client,
                                     const CallMessage& call,
                                     const ScoreQuestion& question);

}  // namespace attn
