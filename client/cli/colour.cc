#include "client/cli/colour.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

// How errors are painted that come up before a command has its options, too:
// the one setting of the process.
ColourChoice& Choice() {
  static ColourChoice choice = ColourChoice::kAuto;
  return choice;
}

// "" where it is not set.
std::string Variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment.
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Bold red, green, bold red, yellow (ECMA-48 SGR).
constexpr const char* kSequences[] = {"\x1b[1;31m", "\x1b[32m", "\x1b[1;31m",
                                      "\x1b[33m"};
constexpr char kPlain[] = "\x1b[0m";

}  // namespace

void SetColourChoice(ColourChoice choice) { Choice() = choice; }

bool IsTerminal(int file_descriptor) {
  const std::string term = Variable("TERM");
  return isatty(file_descriptor) == 1 && !term.empty() && term != "dumb";
}

bool WantsColourOn(int file_descriptor) {
  switch (Choice()) {
    case ColourChoice::kAlways:
      return true;
    case ColourChoice::kNever:
      return false;
    case ColourChoice::kAuto:
      break;
  }
  return Variable("NO_COLOR").empty() && IsTerminal(file_descriptor);
}

bool WantsColour() { return WantsColourOn(STDOUT_FILENO); }

std::string Painted(absl::string_view text, TextColour colour, bool wanted) {
  if (!wanted) return std::string(text);
  return absl::StrCat(kSequences[static_cast<size_t>(colour)], text, kPlain);
}

}  // namespace attn
