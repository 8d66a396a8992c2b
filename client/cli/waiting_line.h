// Says on the terminal that the program waits, and for how long it has.
#pragma once

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "client/cli/progress.h"

namespace attn {

// "attend: 12 s" on a ProgressLine while it lives, after the first second; a
// thread of its own draws it. Does nothing where there is no terminal.
class WaitingLine {
 public:
  explicit WaitingLine(std::string label,
                       ProgressTerminal terminal = ErrorTerminal());
  // Takes the line away.
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

 private:
  void Draw();

  std::string label_;
  bool draws_;
  ProgressLine line_;  // of the thread, while there is one
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace attn
