// Ctrl-C as a request to come to an end, so that what was begun is put away.
#pragma once

#include <stop_token>
#include <thread>

namespace attn {

// While it exists, the first SIGINT or SIGTERM requests a stop; the next ends
// the program as it would without this. Create it before the threads that may
// not be hit: they inherit the blocked signals. Thread-safe; one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void Watch();

  std::stop_source source_;
  const int signals_;  // signalfd
  const int quit_;     // eventfd
  std::thread thread_;
};

}  // namespace attn
