// Draws a figure that has been laid out.
#pragma once

#include "client/draw/attention_figure.h"
#include "client/draw/canvas.h"
#include "client/draw/figure_layout.h"
#include "client/draw/label_text.h"

namespace attn {

// `layout` is that of the figure. Masked cells are hatched, what is not finite
// is black, all others have the colour of their value; where cells are large
// enough for it the value is written in them.
void PaintFigure(const AttentionFigure& figure, const FigureLayout& layout,
                 const TextRuler& ruler, Canvas& canvas);

// The colour of a finite value.
Rgb ColourOf(const ColourScale& scale, double value);

}  // namespace attn
