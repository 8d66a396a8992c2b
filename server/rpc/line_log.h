// The server's log: one line for each event or request, as text or JSON.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/call_record.h"

namespace attn {

enum class LogFormat { kText, kJson };

// Lines never hold tensor data, and what came from outside cannot break one.
// Thread-safe if the sink is.
class LineLog {
 public:
  // Takes one line with its newline.
  using Sink = std::function<void(const std::string& line)>;

  LineLog(LogFormat format, Sink sink)
      : format_(format), sink_(std::move(sink)) {}

  void Info(absl::string_view message) const { Event("info", message); }
  void Warning(absl::string_view message) const { Event("warning", message); }
  void Error(absl::string_view message) const { Event("error", message); }
  void Request(const CallRecord& record) const;

  // Writes whole lines to standard error, and never waits for its reader: lines
  // for which there is no room, or that cannot be written, are counted, and the
  // log tells how many. Its last copy waits until all is written, or nothing
  // was for `flush_timeout`.
  static Sink StandardError(LogFormat format,
                            absl::Duration flush_timeout = absl::Seconds(1));

 private:
  void Event(absl::string_view severity, absl::string_view message) const;

  const LogFormat format_;
  const Sink sink_;
};

}  // namespace attn
