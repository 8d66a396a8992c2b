// @ts-check
// A cursor that is moved over a matrix by keys.

/** @typedef {{row: number, col: number}} Cell */

/**
 * Where a key moves a cursor; undefined where it is not a key for that.
 * @param {string} key of KeyboardEvent
 * @param {boolean} control whether the control key is down
 * @param {Cell} cell
 * @param {{rows: number, cols: number}} matrix
 * @returns {Cell | undefined}
 */
export function movedCursor(key, control, {row, col}, {rows, cols}) {
  const far = 10;
  /** @type {Record<string, [number, number]>} */
  const places = {
    ArrowUp: [row - 1, col],
    ArrowDown: [row + 1, col],
    ArrowLeft: [row, col - 1],
    ArrowRight: [row, col + 1],
    PageUp: [row - far, col],
    PageDown: [row + far, col],
    Home: [control ? 0 : row, 0],
    End: [control ? rows - 1 : row, cols - 1],
  };
  const place = places[key];
  if (!place || rows === 0 || cols === 0) return undefined;
  return {
    row: Math.min(Math.max(place[0], 0), rows - 1),
    col: Math.min(Math.max(place[1], 0), cols - 1),
  };
}

/**
 * The cell under a point, in pixels from the corner of the first.
 * @param {number} x
 * @param {number} y
 * @param {{rows: number, cols: number, cellWidth: number, cellHeight: number}}
 *     grid
 * @returns {Cell | undefined}
 */
export function cellAt(x, y, {rows, cols, cellWidth, cellHeight}) {
  const row = Math.floor(y / cellHeight);
  const col = Math.floor(x / cellWidth);
  const inside = row >= 0 && row < rows && col >= 0 && col < cols;
  return inside ? {row, col} : undefined;
}
