// A pipe that a test reads when it likes to.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace attn {

// Thread-compatible.
class TestPipe {
 public:
  TestPipe() {
    // A write(2) that nobody reads any more fails, and kills nobody.
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends_.data()), 0);
    reader_ = fdopen(ends_[0], "r");
  }
  // Whoever is stuck in write(2) gets free; so the other end stays open.
  ~TestPipe() { fclose(reader_); }
  TestPipe(const TestPipe&) = delete;
  TestPipe& operator=(const TestPipe&) = delete;

  int writing_end() const { return ends_[1]; }
  bool IsFull() const {
    pollfd file = {ends_[1], POLLOUT, 0};
    return poll(&file, 1, 0) == 0;
  }
  // Comes after all that was written before, whoever wrote it.
  void WriteLine(std::string line) const {
    line += '\n';
    EXPECT_EQ(write(ends_[1], line.data(), line.size()),
              static_cast<ssize_t>(line.size()));
  }
  // Waits for a line; without its newline.
  std::string ReadLine() {
    std::string line;
    for (int c = fgetc(reader_); c != EOF && c != '\n'; c = fgetc(reader_)) {
      line += static_cast<char>(c);
    }
    return line;
  }

 private:
  std::array<int, 2> ends_{};
  FILE* reader_ = nullptr;
};

}  // namespace attn
