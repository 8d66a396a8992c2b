// How far long work is: a line on the terminal that is written over and goes
// away when the work ends. Results are never part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attn {

// Where a line is drawn. Without `write` nothing is.
struct ProgressTerminal {
  std::function<void(absl::string_view)> write{};
  // Columns; longer lines are cut, for one that wraps cannot be written over.
  size_t width = 80;
  std::function<absl::Time()> now{};
};

// Standard error if it is a terminal that can go back in a line; else one
// without `write`, so that logs and pipes see nothing.
ProgressTerminal ErrorTerminal();

// One line that is drawn at most ten times a second. Does nothing where there
// is no terminal. Thread-compatible.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressTerminal terminal = ErrorTerminal());
  // Clears.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Draws `text` (one line, UTF-8) over what stands there, unless the last
  // drawing is too young.
  void Show(absl::string_view text);
  // Takes the line away: before results are printed.
  void Clear();

 private:
  ProgressTerminal terminal_;
  absl::Time last_ = absl::InfinitePast();
  bool shown_ = false;
};

// "check [=======>      ] 57/103 sdpa/causal" on a ProgressLine.
// Thread-compatible.
class ProgressBar {
 public:
  // `total` parts of work, > 0.
  ProgressBar(std::string label, int64_t total,
              ProgressTerminal terminal = ErrorTerminal());

  // `done` parts are done and `what` is what comes next.
  void Show(int64_t done, absl::string_view what = "");
  void Clear() { line_.Clear(); }

 private:
  std::string label_;
  int64_t total_;
  ProgressLine line_;
};

}  // namespace attn
