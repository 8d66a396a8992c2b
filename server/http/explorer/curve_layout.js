// @ts-check
// Where a curve's points and ticks lie; values without a page.

import {logTicks, niceStep, shortText, valueTicks} from './numbers.js';

/**
 * @typedef {{x: number, y: number}} Point
 * @typedef {{value: number, text: string, at: number}} Tick
 * @typedef {{left: number, top: number, right: number, bottom: number}} Frame
 */

/**
 * A scale from values to pixels.
 * @param {readonly [number, number]} range
 * @param {readonly [number, number]} pixels
 * @param {boolean} log
 * @returns {(value: number) => number}
 */
export function scaleOf([low, high], [from, to], log) {
  const change = log ? Math.log : (/** @type {number} */ x) => x;
  const begin = change(low);
  const way = change(high) - begin || 1;
  return (value) => from + ((change(value) - begin) / way) * (to - from);
}

/**
 * What the axes go over. y begins at 0, unless values are below.
 * @param {readonly Point[]} points
 */
export function curveRanges(points) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y).filter(Number.isFinite);
  const low = Math.min(0, ...ys);
  const high = Math.max(low, ...ys);
  const step = niceStep((high - low || 1) / 4);
  return {
    x: /** @type {[number, number]} */ ([Math.min(...xs), Math.max(...xs)]),
    y: /** @type {[number, number]} */ (
        [low, Math.ceil((high || step) / step - 1e-9) * step]),
  };
}

/**
 * @param {readonly Point[]} points at least one
 * @param {Frame} frame
 * @param {boolean} log of x
 */
export function curveLayout(points, frame, log) {
  const ranges = curveRanges(points);
  const x = scaleOf(ranges.x, [frame.left, frame.right], log);
  const y = scaleOf(ranges.y, [frame.bottom, frame.top], false);
  const most = Math.max(Math.floor((frame.right - frame.left) / 48), 2);
  const xs = log ? logTicks(ranges.x[0], ranges.x[1], most) :
                   valueTicks(ranges.x[0], ranges.x[1], most);
  const tick = (/** @type {(value: number) => number} */ scale) =>
      (/** @type {number} */ value) =>
          ({value, text: shortText(value), at: scale(value)});
  return {
    x,
    y,
    xTicks: xs.map(tick(x)),
    yTicks: valueTicks(ranges.y[0], ranges.y[1], 6).map(tick(y))
  };
}

/**
 * The path of a line through the points; it has a gap where a value is not
 * finite.
 * @param {readonly Point[]} points
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 */
export function linePath(points, x, y) {
  let pen = 'M';
  let path = '';
  for (const point of points) {
    if (!Number.isFinite(point.y)) {
      pen = 'M';
      continue;
    }
    path += `${pen}${x(point.x).toFixed(2)} ${y(point.y).toFixed(2)}`;
    pen = 'L';
  }
  return path;
}

/**
 * The number of the point whose x is nearest on the page.
 * @param {readonly Point[]} points
 * @param {(value: number) => number} x
 * @param {number} at in pixels
 */
export function nearestPoint(points, x, at) {
  let best = 0;
  points.forEach((point, i) => {
    const nearer = Math.abs(x(point.x) - at) < Math.abs(x(points[best].x) - at);
    if (nearer) best = i;
  });
  return best;
}
