// @ts-check
// Where everything of a heat map lies, in pixels; a value without a canvas.

import {axisLabels, labelSize, lineOf} from './labels.js';

/**
 * @typedef {import('./labels.js').AxisLabels} AxisLabels
 * @typedef {import('./labels.js').Measure} Measure
 * @typedef {{rows: number, cols: number, cellWidth: number,
 *     cellHeight: number, x: number, y: number, panelWidth: number,
 *     panelHeight: number, rowLabels: AxisLabels, colLabels: AxisLabels,
 *     barY: number, barWidth: number, legendX: number, legendY: number,
 *     width: number, height: number}} HeatLayout
 */

export const titleSize = 13;
export const barHeight = 10;
export const swatch = 12;
export const tickGap = 4;
const largestCell = 56;
const leastPanel = 48;
const barGap = 12;
const longestBar = 240;
const legendWidth = 110;

/**
 * Cells are whole pixels where there is room, and squares unless a side of the
 * panel would be too small to see.
 * @param {number} width
 * @param {number} height
 * @param {number} rows
 * @param {number} cols
 */
export function cellSize(width, height, rows, cols) {
  const whole = (/** @type {number} */ x) =>
      x >= 1 ? Math.min(Math.floor(x), largestCell) : x;
  const across = width / Math.max(cols, 1);
  const down = height / Math.max(rows, 1);
  const side = whole(Math.min(across, down));
  const least = (/** @type {number} */ count, /** @type {number} */ most) =>
      count * side >= leastPanel ?
      side :
      Math.max(side, whole(Math.min(leastPanel / Math.max(count, 1), most)));
  return {cellWidth: least(cols, across), cellHeight: least(rows, down)};
}

/**
 * @param {{rows: number, cols: number, width: number, maxHeight: number,
 *     rowLabels?: readonly string[], colLabels?: readonly string[],
 *     title: boolean, legend: boolean, measure: Measure}} wanted
 * @returns {HeatLayout}
 */
export function heatLayout(wanted) {
  const {rows, cols, width, maxHeight, measure} = wanted;
  // Labels are as wide as they may be before the size of cells is known.
  const widest = axisLabels({
                   count: rows,
                   cell: lineOf(labelSize),
                   names: wanted.rowLabels,
                   measure,
                   across: false
                 }).longest;
  const x = Math.ceil(Math.min(widest, width / 3)) + tickGap + 2;
  // The label of the first of many rows is higher than its row.
  const y = wanted.title ? lineOf(titleSize) + 8 : 7;
  const {cellWidth, cellHeight} =
      cellSize(Math.max(width - x - 2, 1), maxHeight, rows, cols);
  const rowLabels = axisLabels({
    count: rows,
    cell: cellHeight,
    names: wanted.rowLabels,
    measure,
    across: false
  });
  const colLabels = axisLabels({
    count: cols,
    cell: cellWidth,
    names: wanted.colLabels,
    measure,
    across: true
  });
  const panelWidth = cols * cellWidth;
  const panelHeight = rows * cellHeight;
  const below = colLabels.up ? colLabels.longest : lineOf(colLabels.size);
  const barY = Math.ceil(y + panelHeight + tickGap + below + barGap);
  const barWidth = Math.min(Math.max(panelWidth, 120), longestBar, width - x);
  const beside = width - x - barWidth >= legendWidth;
  const ticksEnd = barY + barHeight + tickGap + lineOf(labelSize);
  const legendX = beside ? x + barWidth + 16 : x;
  const legendY = beside ? barY - 1 : ticksEnd + 4;
  const end = wanted.legend && !beside ? legendY + swatch + 4 : ticksEnd + 2;
  return {
    rows,
    cols,
    cellWidth,
    cellHeight,
    x,
    y,
    panelWidth,
    panelHeight,
    rowLabels,
    colLabels,
    barY,
    barWidth,
    legendX,
    legendY,
    width,
    height: Math.ceil(end)
  };
}

/** How far the figure goes to the right. @param {HeatLayout} layout */
export function usedWidth({x, panelWidth, barWidth, legendX, colLabels}) {
  const last = colLabels.labels[colLabels.labels.length - 1];
  const label = last ? x + last.offset + colLabels.longest / 2 : 0;
  return Math.max(x + panelWidth, x + barWidth, legendX + legendWidth, label);
}

/**
 * Runs of masked cells, each within one row.
 * @param {{rows: number, cols: number}} matrix
 * @param {(index: number) => boolean} isMasked
 * @returns {{row: number, begin: number, end: number}[]}
 */
export function maskedRuns({rows, cols}, isMasked) {
  const runs = [];
  for (let row = 0; row < rows; ++row) {
    for (let col = 0; col < cols; ++col) {
      if (!isMasked(row * cols + col)) continue;
      const begin = col;
      while (col < cols && isMasked(row * cols + col)) ++col;
      runs.push({row, begin, end: col});
    }
  }
  return runs;
}
