#include "client/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/colour.h"

namespace attn {
namespace {

constexpr absl::Duration kShortestStay = absl::Milliseconds(100);
// Back to the begin of the line; erase from here to its end.
constexpr char kReturn[] = "\r";
constexpr char kErase[] = "\x1b[K";
constexpr int64_t kBarWidth = 30;

// The bytes of the first `columns` code points; what would leave the line is a
// blank.
std::string Cut(absl::string_view text, size_t columns) {
  std::string cut;
  for (const char c : text) {
    const bool starts_code_point = (c & 0xC0) != 0x80;
    if (starts_code_point && columns-- == 0) break;
    cut += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return cut;
}

}  // namespace

ProgressTerminal ErrorTerminal() {
  ProgressTerminal terminal;
  if (!IsTerminal(STDERR_FILENO)) return terminal;
  terminal.write = [](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
  };
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = size.ws_col;
  }
  return terminal;
}

ProgressLine::ProgressLine(ProgressTerminal terminal)
    : terminal_(std::move(terminal)) {
  if (!terminal_.now) terminal_.now = absl::Now;
}

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Show(absl::string_view text) {
  if (!terminal_.write) return;
  const absl::Time now = terminal_.now();
  if (now - last_ < kShortestStay) return;
  last_ = now;
  shown_ = true;
  // Terminals differ in what follows a character in the last column.
  const size_t columns = std::max<size_t>(terminal_.width, 2) - 1;
  terminal_.write(absl::StrCat(kReturn, Cut(text, columns), kErase));
}

void ProgressLine::Clear() {
  if (!shown_) return;
  shown_ = false;
  last_ = absl::InfinitePast();
  terminal_.write(absl::StrCat(kReturn, kErase));
}

ProgressBar::ProgressBar(std::string label, int64_t total,
                         ProgressTerminal terminal)
    : label_(std::move(label)),
      total_(std::max<int64_t>(total, 1)),
      line_(std::move(terminal)) {}

void ProgressBar::Show(int64_t done, absl::string_view what) {
  const int64_t filled =
      kBarWidth * std::clamp<int64_t>(done, 0, total_) / total_;
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(static_cast<size_t>(kBarWidth), ' ');
  line_.Show(
      absl::StrCat(label_, " [", bar, "] ", done, "/", total_, " ", what));
}

}  // namespace attn
