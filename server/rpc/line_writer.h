// Lines of the log on their way to a file or pipe whose reader may stall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attn {

class LineQueue;

struct LineWriterOptions {
  // Of the lines that wait; those beyond are lost. Some seconds of a busy log.
  size_t max_bytes = size_t{1} << 20;
  // How long the end waits for a reader that takes nothing.
  absl::Duration flush_timeout = absl::Seconds(1);
  // Makes the line that tells how many had no room or could not be written,
  // when the next are. Null: nobody is told.
  std::function<std::string(int64_t lines)> describe_lost = nullptr;
};

// Writes lines in their order, on a thread of its own, so that a reader that
// takes nothing stops nobody else. A process that is killed loses the lines of
// its last milliseconds. Thread-safe.
class LineWriter {
 public:
  // `descriptor` must stay open until this has gone; after a flush that timed
  // out, until the process ends.
  LineWriter(int descriptor, const LineWriterOptions& options);
  // Waits until all is written, or nothing was for the flush timeout.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Takes one line with its newline. Never blocks for long.
  void Write(absl::string_view line);

 private:
  const absl::Duration flush_timeout_;
  // The thread's as well, which a stalled reader may keep beyond this.
  const std::shared_ptr<LineQueue> queue_;
  std::thread thread_;
};

}  // namespace attn
