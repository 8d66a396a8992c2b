// @ts-check
// What part of a large matrix is seen; values without a page.

/**
 * The element at the corner, and pixels for each element, of a place of so many
 * pixels.
 * @typedef {{row: number, col: number, scale: number}} View
 * @typedef {{width: number, height: number}} Place
 * @typedef {import('./tile_plan.js').Size} Size
 */

export const largestScale = 64;

/** The scale at which all is seen. @param {Size} size @param {Place} place */
export function fitScale({rows, cols}, {width, height}) {
  const scale = Math.min(width / cols, height / rows);
  return Math.min(scale, largestScale);
}

/**
 * The nearest view that leaves no more of its place blank, on any side, than
 * there is when all is seen. So zooming in keeps what is under the pointer.
 * @param {View} view
 * @param {Size} size
 * @param {Place} place
 * @returns {View}
 */
export function clamped(view, size, place) {
  const least = fitScale(size, place);
  const scale = Math.min(Math.max(view.scale, least), largestScale);
  const inside =
      (/** @type {number} */ begin, /** @type {number} */ all,
       /** @type {number} */ pixels) => {
        const blank = Math.max(pixels - all * least, 0) / 2 / scale;
        const last = all + blank - pixels / scale;
        return Math.min(Math.max(begin, -blank), Math.max(last, -blank));
      };
  return {
    scale,
    row: inside(view.row, size.rows, place.height),
    col: inside(view.col, size.cols, place.width)
  };
}

/** All of the matrix. @param {Size} size @param {Place} place */
export function fitted(size, place) {
  return clamped({row: 0, col: 0, scale: 0}, size, place);
}

/**
 * Zooms by a factor; what is under the point stays there.
 * @param {View} view
 * @param {number} factor
 * @param {{x: number, y: number}} point
 * @param {Size} size
 * @param {Place} place
 */
export function zoomed(view, factor, {x, y}, size, place) {
  const least = fitScale(size, place);
  const scale = Math.min(Math.max(view.scale * factor, least), largestScale);
  const next = {
    scale,
    row: view.row + y / view.scale - y / scale,
    col: view.col + x / view.scale - x / scale
  };
  return clamped(next, size, place);
}

/**
 * Moves what is seen by so many pixels.
 * @param {View} view
 * @param {number} x
 * @param {number} y
 * @param {Size} size
 * @param {Place} place
 */
export function panned(view, x, y, size, place) {
  return clamped(
      {...view, row: view.row - y / view.scale, col: view.col - x / view.scale},
      size, place);
}

/**
 * The elements that are seen.
 * @param {View} view
 * @param {Size} size
 * @param {Place} place
 * @returns {import('./tile_plan.js').Ranges}
 */
export function seenRanges({row, col, scale}, size, {width, height}) {
  // A product that should be whole may be a little more or less.
  const rounding = 1e-6;
  return {
    queryBegin: Math.max(Math.floor(row + rounding), 0),
    queryEnd: Math.min(Math.ceil(row + height / scale - rounding), size.rows),
    keyBegin: Math.max(Math.floor(col + rounding), 0),
    keyEnd: Math.min(Math.ceil(col + width / scale - rounding), size.cols),
  };
}

/**
 * The element under a point, if there is one.
 * @param {View} view
 * @param {{x: number, y: number}} point
 * @param {Size} size
 */
export function elementAt({row, col, scale}, {x, y}, {rows, cols}) {
  const at = {
    row: Math.floor(row + y / scale),
    col: Math.floor(col + x / scale)
  };
  const inside = at.row >= 0 && at.row < rows && at.col >= 0 && at.col < cols;
  return inside ? at : undefined;
}
