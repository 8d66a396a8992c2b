// @ts-check
// Names and numbers beside rows and below columns: as many as fit.

import {indexTicks, niceStep} from './numbers.js';

/**
 * @typedef {(text: string, size: number) => number} Measure in pixels
 * @typedef {{text: string, offset: number}} Label offset is of its middle, in
 *     pixels from where the axis begins
 * @typedef {{labels: Label[], size: number, longest: number, up: boolean}}
 *     AxisLabels up: written from below to above
 */

export const labelSize = 11;
const leastLabelSize = 9;
const longestName = 110;
const labelGap = 8;
const numbersApart = 20;

/** What letters of a size need for themselves. @param {number} size */
export function lineOf(size) {
  return Math.ceil(size * 1.2);
}

/**
 * The largest letters whose lines are no higher than a cell.
 * @param {number} cell
 */
export function sizeFor(cell) {
  for (let size = labelSize; size >= leastLabelSize; --size) {
    if (lineOf(size) <= cell) return size;
  }
  return labelSize;
}

/**
 * The text, or as much of its beginning as is no wider, and an ellipsis.
 * @param {string} text
 * @param {number} width
 * @param {number} size
 * @param {Measure} measure
 */
export function fitText(text, width, size, measure) {
  const clean = visibleText(text);
  if (measure(clean, size) <= width) return clean;
  const points = [...clean];
  let fits = 0;
  let tooLong = points.length;
  while (fits + 1 < tooLong) {
    const middle = (fits + tooLong) >> 1;
    const cut = `${points.slice(0, middle).join('')}…`;
    if (measure(cut, size) <= width)
      fits = middle;
    else
      tooLong = middle;
  }
  return `${points.slice(0, fits).join('')}…`;
}

/** White space that would not be seen is shown. @param {string} text */
export function visibleText(text) {
  const shown = text.replace(/\n/g, '⏎').replace(/\t/g, '⇥');
  return shown === '' || /^\s+$/.test(shown) ?
      '␣'.repeat(Math.max(shown.length, 1)) :
      shown;
}

/**
 * Labels of one axis of a heat map.
 * @param {{count: number, cell: number, names?: readonly string[],
 *     measure: Measure, across: boolean}} axis across: below columns, where
 *     labels lie beside each other
 * @returns {AxisLabels}
 */
export function axisLabels(axis) {
  const labels = axis.names ? named(axis, axis.names) : numbered(axis);
  const apart = labels.apart * axis.cell;
  const up = axis.across && labels.longest + labelGap > apart;
  return {
    labels: labels.labels,
    size: labels.size,
    longest: labels.longest,
    up
  };
}

/**
 * Each index by its name, so many apart that their lines do not meet.
 * @param {{count: number, cell: number, measure: Measure}} axis
 * @param {readonly string[]} names
 */
function named({count, cell, measure}, names) {
  const size = sizeFor(cell);
  const apart = Math.max(Math.ceil(lineOf(size) / cell), 1);
  const labels = [];
  for (let i = 0; i < count; i += apart) {
    const name = names[i] ?? String(i);
    const text = fitText(name, longestName, size, measure);
    labels.push({text, offset: (i + 0.5) * cell});
  }
  return {labels, size, apart, longest: widest(labels, size, measure)};
}

/**
 * Multiples of a nice number, far enough apart.
 * @param {{count: number, cell: number, measure: Measure,
 *     across: boolean}} axis
 */
function numbered({count, cell, measure, across}) {
  const width = measure(String(Math.max(count - 1, 0)), labelSize);
  const pixels = across ? width + labelGap : numbersApart;
  const apart = Math.max(Math.round(niceStep(Math.max(pixels / cell, 1))), 1);
  const labels = indexTicks(0, count, apart)
                     .map((i) => ({text: String(i), offset: (i + 0.5) * cell}));
  const longest = widest(labels, labelSize, measure);
  return {labels, size: labelSize, apart, longest};
}

/**
 * @param {Label[]} labels
 * @param {number} size
 * @param {Measure} measure
 */
function widest(labels, size, measure) {
  return labels.reduce(
      (most, {text}) => Math.max(most, measure(text, size)), 0);
}
