#include "server/rpc/line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <optional>
#include <utility>

#include "engine/runtime/mutex.h"

namespace attn {
namespace {

// Under load the writer comes by so often, and no line has to wake it: that
// would cost as much as to write it.
constexpr std::chrono::milliseconds kRound(2);

// As many whole lines as a pipe takes at once, so that lines of other processes
// do not come in between; of a longer line, so much.
size_t FirstPart(absl::string_view text) {
  if (text.size() <= PIPE_BUF) return text.size();
  const size_t newline = text.rfind('\n', PIPE_BUF - 1);
  return newline == absl::string_view::npos ? PIPE_BUF : newline + 1;
}

}  // namespace

// Thread-safe.
class LineQueue {
 public:
  explicit LineQueue(size_t max_bytes) : max_bytes_(max_bytes) {
    waiting_.reserve(max_bytes);
  }

  size_t max_bytes() const { return max_bytes_; }

  void Push(absl::string_view line) {
    const MutexLock lock(mutex_);
    if (line.size() > max_bytes_ - waiting_.size()) {
      ++lost_;
      return;
    }
    waiting_.append(line.data(), line.size());
    if (std::exchange(sleeping_, false)) changed_.NotifyAll();
  }

  // Waits for lines and swaps them for `text`, which is empty. Adds to `lost`
  // how many would have come after them. False: this is the end.
  bool Take(std::string& text, int64_t& lost) {
    const MutexLock lock(mutex_);
    if (!closed_) changed_.WaitFor(mutex_, kRound);
    while (waiting_.empty() && !closed_) {
      sleeping_ = true;
      changed_.Wait(mutex_);
    }
    if (given_up_ || waiting_.empty()) return false;
    waiting_.swap(text);
    lost += std::exchange(lost_, 0);
    return true;
  }

  void End() {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }

  // Around each write(2). False: the writer need not go on.
  bool BeginWrite() {
    const MutexLock lock(mutex_);
    if (!writing_since_) writing_since_ = std::chrono::steady_clock::now();
    return !given_up_;
  }
  void EndWrite() {
    const MutexLock lock(mutex_);
    writing_since_.reset();
  }

  // Waits until the writer has written all. False: one write(2) takes longer
  // than `timeout`, and the writer need not go on. The time in which it only
  // waits for a CPU is not the reader's.
  bool Close(absl::Duration timeout) {
    const std::chrono::nanoseconds patience =
        absl::ToChronoNanoseconds(timeout);
    const auto begin = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
    while (!ended_) {
      const auto now = std::chrono::steady_clock::now();
      const auto since = std::max(begin, writing_since_.value_or(now));
      const std::chrono::nanoseconds left = since + patience - now;
      given_up_ = left <= std::chrono::nanoseconds::zero();
      if (given_up_) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

 private:
  const size_t max_bytes_;
  Mutex mutex_;
  CondVar changed_;
  std::string waiting_ ATTN_GUARDED_BY(mutex_);
  int64_t lost_ ATTN_GUARDED_BY(mutex_) = 0;
  // The writer waits until it is notified.
  bool sleeping_ ATTN_GUARDED_BY(mutex_) = false;
  bool closed_ ATTN_GUARDED_BY(mutex_) = false;
  bool given_up_ ATTN_GUARDED_BY(mutex_) = false;
  bool ended_ ATTN_GUARDED_BY(mutex_) = false;
  // Empty: it is not in write(2), nor waits for room.
  std::optional<std::chrono::steady_clock::time_point> writing_since_
      ATTN_GUARDED_BY(mutex_);
};

namespace {

// Waits while a descriptor that does not block has no room.
void WaitForRoom(int descriptor) {
  constexpr int kLookMilliseconds = 100;
  pollfd file = {descriptor, POLLOUT, 0};
  poll(&file, 1, kLookMilliseconds);
}

// Gives the rest that cannot be written: nobody reads it any more, the disk is
// full.
absl::string_view WriteAll(LineQueue& queue, int descriptor,
                           absl::string_view text) {
  while (!text.empty() && queue.BeginWrite()) {
    const ssize_t written = write(descriptor, text.data(), FirstPart(text));
    const int error = errno;
    if (written > 0) {
      queue.EndWrite();
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && error == EAGAIN) {
      WaitForRoom(descriptor);
    } else if (written == 0 || error != EINTR) {
      queue.EndWrite();
      break;
    }
  }
  return text;
}

// A descriptor that may fail for a while, and within a line. Thread-compatible.
class LineOutput {
 public:
  LineOutput(LineQueue& queue, int descriptor)
      : queue_(queue), descriptor_(descriptor) {}

  // How many of `lines` are lost.
  int64_t Write(absl::string_view lines) {
    absl::string_view rest = lines;
    // Of a line that was cut short only the next newline is the end.
    if (!cut_short_ || WriteAll(queue_, descriptor_, "\n").empty()) {
      rest = WriteAll(queue_, descriptor_, lines);
      const size_t written = lines.size() - rest.size();
      cut_short_ = written > 0 && lines[written - 1] != '\n';
    }
    return std::count(rest.begin(), rest.end(), '\n');
  }

 private:
  LineQueue& queue_;
  const int descriptor_;
  bool cut_short_ = false;
};

void WriteLines(
    LineQueue& queue, int descriptor,
    const std::function<std::string(int64_t lines)>& describe_lost) {
  std::string text;
  text.reserve(queue.max_bytes());
  LineOutput output(queue, descriptor);
  int64_t lost = 0;
  while (queue.Take(text, lost)) {
    const int64_t failed = output.Write(text);
    text.clear();
    lost += failed;
    if (failed > 0 || lost == 0 || !describe_lost) continue;
    if (output.Write(describe_lost(lost)) == 0) lost = 0;
  }
  queue.End();
}

}  // namespace

LineWriter::LineWriter(int descriptor, const LineWriterOptions& options)
    : flush_timeout_(options.flush_timeout),
      queue_(std::make_shared<LineQueue>(options.max_bytes)),
      thread_(
          [queue = queue_, descriptor, describe_lost = options.describe_lost] {
            WriteLines(*queue, descriptor, describe_lost);
          }) {}

LineWriter::~LineWriter() {
  if (queue_->Close(flush_timeout_)) {
    thread_.join();
  } else {
    // Nothing makes write(2) return while its reader takes nothing.
    thread_.detach();
  }
}

void LineWriter::Write(absl::string_view line) { queue_->Push(line); }

}  // namespace attn
