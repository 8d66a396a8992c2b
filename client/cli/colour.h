// When the program paints: on a terminal, unless the user says otherwise.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace attn {

enum class ColourChoice { kAuto, kAlways, kNever };

// What --color says, for the whole process. main() sets it before a command
// runs and before there are threads.
void SetColourChoice(ColourChoice choice);

// Whether `file_descriptor` is a terminal that knows escape sequences: TERM is
// there and is not "dumb".
bool IsTerminal(int file_descriptor);

// Whether to paint what is written there: as --color says, or else on a
// terminal if NO_COLOR is not set.
bool WantsColourOn(int file_descriptor);
// On standard output.
bool WantsColour();

// By what is said, not by hue.
enum class TextColour { kError, kPassed, kFailed, kNote };

// `text` in that colour if `wanted`, else as it is.
std::string Painted(absl::string_view text, TextColour colour, bool wanted);

}  // namespace attn
