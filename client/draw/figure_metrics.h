// Distances of a figure, in pixels.
#pragma once

namespace attn::figure_metrics {

inline constexpr int kMargin = 16;
inline constexpr int kTitleSize = 16;
inline constexpr int kTextSize = 12;
inline constexpr int kLabelSize = 11;
// Of one line of text, from baseline to baseline.
inline constexpr int kTitleLine = 24;
inline constexpr int kTextLine = 18;
inline constexpr int kLeastLabelSize = 9;
// What letters of a size need for themselves: 1.2 em, rounded up.
constexpr int LineOf(int size) { return (size * 6 + 4) / 5; }
// Longer names are cut.
inline constexpr int kLongestName = 110;
// Beside the labels of rows.
inline constexpr int kAxisTitle = 24;
inline constexpr int kTickLength = 4;
// From a tick to its label.
inline constexpr int kTickGap = 3;
// Between panels of a group, between groups, and between rows of groups.
inline constexpr int kPanelGap = 14;
inline constexpr int kGroupGap = 30;
inline constexpr int kRowGap = 16;
// A panel's place is no narrower, so that its title has room.
inline constexpr int kLeastPlace = 64;
// Of a panel, where cells may be stretched.
inline constexpr int kLeastPanel = 48;
inline constexpr int kLargestCell = 44;
// A colour bar with its ticks and its label.
inline constexpr int kBarWidth = 16;
inline constexpr int kBarPlace = 124;
inline constexpr int kBarGap = 20;
// Longer labels of its ticks are cut.
inline constexpr int kLongestTick = 60;
inline constexpr int kLeastBar = 120;
inline constexpr int kLongestBar = 360;
inline constexpr int kSwatch = 14;
// Titles may make a figure so wide.
inline constexpr int kLeastWidth = 400;

// What is beside the panels and their gaps at most: margins, labels, axis
// titles and colour bars; above and below: titles, labels, legend.
constexpr int WidthBesides(int scales) {
  return 2 * kMargin + kLongestName + kTickLength + kTickGap + kAxisTitle +
         kGroupGap + scales * kBarPlace;
}
inline constexpr int kHeightBesides = 2 * kMargin + kTitleLine + 2 * kTextLine +
                                      kLongestName + kTickLength + kTickGap +
                                      kTextLine + 2 * kTextLine;
// Titles of a group and of its panels.
inline constexpr int kGroupHead = 2 * kTextLine;

}  // namespace attn::figure_metrics
