#include "client/cli/waiting_line.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace attn {
namespace {

// What is done sooner needs no words.
constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

WaitingLine::WaitingLine(std::string label, ProgressTerminal terminal)
    : label_(std::move(label)),
      draws_(static_cast<bool>(terminal.write)),
      line_(std::move(terminal)) {
  if (draws_) thread_ = std::thread([this] { Draw(); });
}

WaitingLine::~WaitingLine() {
  done_.Notify();
  if (thread_.joinable()) thread_.join();
}

void WaitingLine::Draw() {
  const absl::Time begin = absl::Now();
  while (!done_.WaitForNotificationWithTimeout(kPatience)) {
    const auto seconds =
        static_cast<int64_t>(absl::ToDoubleSeconds(absl::Now() - begin));
    line_.Show(absl::StrCat(label_, ": ", seconds, " s"));
  }
}

}  // namespace attn
