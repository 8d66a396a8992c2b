// @ts-check
// A heat map and its layout, onto a painter.

import {colourMap, css, inkOn, paintPixels} from './colours.js';
import {barHeight, maskedRuns, swatch, tickGap, titleSize} from './heat_layout.js';
import {labelSize, lineOf} from './labels.js';
import {shortText} from './numbers.js';

/**
 * @typedef {import('./heat_layout.js').HeatLayout} HeatLayout
 * @typedef {import('./painter.js').Painter} Painter
 * @typedef {import('./view.js').Theme} Theme
 * @typedef {import('./heatmap.js').HeatFigure} HeatFigure
 */

// Numbers are written into cells where there are few.
const mostNumbers = 1024;
const numberSize = 11;

/**
 * @param {Painter} painter
 * @param {HeatFigure} figure
 * @param {HeatLayout} layout
 * @param {Theme} theme
 * @param {import('./labels.js').Measure} measure
 */
export function paintHeatMap(painter, figure, layout, theme, measure) {
  const {x, y, panelWidth, panelHeight} = layout;
  const {rows, cols, data} = figure.matrix;
  const colours = colourMap(figure.map, theme.dark);
  const pixels = new Uint8ClampedArray(4 * rows * cols);
  paintPixels({
    data,
    colours,
    range: figure.range,
    notFinite: theme.masked.notFinite,
    pixels
  });
  const panel = {x, y, width: panelWidth, height: panelHeight};
  painter.cells({rows, cols, pixels}, panel);
  const runs = maskedRuns(figure.matrix, figure.isMasked);
  painter.hatch(
      runs.map((run) => ({
                 x: x + run.begin * layout.cellWidth,
                 y: y + run.row * layout.cellHeight,
                 width: (run.end - run.begin) * layout.cellWidth,
                 height: layout.cellHeight,
               })),
      theme.masked);
  painter.frame(panel, theme.faint);
  paintNumbers(painter, figure, layout, pixels, measure);
  paintLabels(painter, layout, theme);
  paintBar(painter, figure, layout, theme);
  paintLegend(painter, figure, layout, theme);
}

/**
 * @param {Painter} painter
 * @param {string} title
 * @param {HeatLayout} layout
 * @param {Theme} theme
 */
export function paintTitle(painter, title, layout, theme) {
  painter.box(
      {x: 0, y: 0, width: layout.width, height: layout.height}, theme.ground);
  painter.text(
      title, 2, lineOf(titleSize) / 2 + 1,
      {size: titleSize, colour: theme.ink, bold: true});
}

/**
 * The value in each cell, if all of them fit.
 * @param {Painter} painter
 * @param {HeatFigure} figure
 * @param {HeatLayout} layout
 * @param {Uint8ClampedArray} pixels
 * @param {import('./labels.js').Measure} measure
 */
function paintNumbers(painter, figure, layout, pixels, measure) {
  const {rows, cols, data} = figure.matrix;
  const {cellWidth, cellHeight, x, y} = layout;
  const few = rows * cols <= mostNumbers;
  if (!few || cellHeight < lineOf(numberSize)) return;
  const texts = Array.from(
      data, (value, i) => figure.isMasked(i) ? '' : figure.format(value));
  const fits =
      texts.every((text) => measure(text, numberSize) <= cellWidth - 4);
  if (!fits) return;
  texts.forEach((text, i) => {
    if (!text) return;
    const [r, g, b] = pixels.subarray(4 * i, 4 * i + 3);
    const middle = {
      x: x + ((i % cols) + 0.5) * cellWidth,
      y: y + (Math.floor(i / cols) + 0.5) * cellHeight
    };
    painter.text(
        text, middle.x, middle.y,
        {size: numberSize, colour: css(inkOn([r, g, b])), anchor: 'middle'});
  });
}

/**
 * @param {Painter} painter
 * @param {HeatLayout} layout
 * @param {Theme} theme
 */
function paintLabels(painter, layout, theme) {
  const {rowLabels, colLabels, x, y, panelHeight} = layout;
  for (const {text, offset} of rowLabels.labels) {
    painter.text(
        text, x - tickGap, y + offset,
        {size: rowLabels.size, colour: theme.ink, anchor: 'end'});
  }
  const below = y + panelHeight + tickGap;
  for (const {text, offset} of colLabels.labels) {
    const style = {size: colLabels.size, colour: theme.ink};
    if (colLabels.up) {
      painter.text(
          text, x + offset, below, {...style, anchor: 'end', up: true});
    } else {
      painter.text(
          text, x + offset, below + lineOf(colLabels.size) / 2,
          {...style, anchor: 'middle'});
    }
  }
}

/**
 * The colours from the least to the largest value.
 * @param {Painter} painter
 * @param {HeatFigure} figure
 * @param {HeatLayout} layout
 * @param {Theme} theme
 */
function paintBar(painter, figure, layout, theme) {
  const {x, barY, barWidth} = layout;
  const steps = 128;
  const pixels = new Uint8ClampedArray(4 * steps);
  const data = Float64Array.from({length: steps}, (_, i) => i / (steps - 1));
  paintPixels({
    data,
    colours: colourMap(figure.map, theme.dark),
    range: [0, 1],
    notFinite: theme.masked.notFinite,
    pixels
  });
  const bar = {x, y: barY, width: barWidth, height: barHeight};
  painter.cells({rows: 1, cols: steps, pixels}, bar);
  painter.frame(bar, theme.faint);
  const [low, high] = figure.range;
  const texts = [low, low / 2 + high / 2, high];
  const line = barY + barHeight + tickGap + lineOf(labelSize) / 2;
  texts.forEach((value, i) => {
    const anchor = /** @type {const} */ (['start', 'middle', 'end'])[i];
    painter.text(
        shortText(value), x + (i / 2) * barWidth, line,
        {size: labelSize, colour: theme.ink, anchor});
  });
}

/**
 * What the hatch and the colour of no number mean, where they are seen.
 * @param {Painter} painter
 * @param {HeatFigure} figure
 * @param {HeatLayout} layout
 * @param {Theme} theme
 */
function paintLegend(painter, figure, layout, theme) {
  let x = layout.legendX;
  const y = layout.legendY;
  const entry = (/** @type {string} */ text, /** @type {boolean} */ hatch) => {
    const box = {x, y, width: swatch, height: swatch};
    if (hatch)
      painter.hatch([box], theme.masked);
    else
      painter.box(box, css(theme.masked.notFinite));
    painter.frame(box, theme.faint);
    painter.text(
        text, x + swatch + 5, y + swatch / 2,
        {size: labelSize, colour: theme.ink});
    x += swatch + 62;
  };
  if (figure.hasMasked) entry('masked', true);
  if (figure.hasNotFinite) entry('not finite', false);
}
