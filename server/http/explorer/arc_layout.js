// @ts-check
// Where tokens and the arcs between them lie; values without a page.

/**
 * @typedef {{row: number, col: number, weight: number}} Arc
 * @typedef {{across: boolean, width: number, height: number,
 *     base: number, labelWidth: number, reach: number, at: number[]}} ArcLayout
 *     at: the middle of each token along its line; base: where arcs begin;
 *     reach: how far the widest arc goes from there
 */

const pitch = 20;
const tokenGap = 14;
const leastToken = 40;
const numberWidth = 44;
const deepest = 170;

/**
 * Tokens in one line where they fit, and one below the other where not.
 * @param {readonly number[]} widths of the tokens' texts
 * @param {number} width
 * @returns {ArcLayout}
 */
export function arcLayout(widths, width) {
  const places = widths.map((w) => Math.max(w, leastToken) + tokenGap);
  const total = places.reduce((sum, place) => sum + place, 0);
  const longest = Math.max(...widths, 0);
  if (total > width) {
    const labelWidth = Math.min(longest, width / 3);
    const base = numberWidth + labelWidth + 10;
    return {
      across: false,
      width,
      height: pitch * widths.length + 8,
      base,
      labelWidth,
      reach: Math.max(Math.min(width - base - 8, 420), 20),
      at: widths.map((_, i) => 4 + (i + 0.5) * pitch)
    };
  }
  let end = 0;
  const at = places.map((place) => {
    end += place;
    return end - place / 2;
  });
  const reach = Math.min(deepest, Math.max(total / 3, 40));
  return {
    across: true,
    width,
    height: reach + 52,
    base: reach + 10,
    labelWidth: longest,
    reach,
    at
  };
}

/**
 * The path of an arc. Those over more tokens reach farther.
 * @param {ArcLayout} layout
 * @param {number} row
 * @param {number} col
 */
export function arcPath(layout, row, col) {
  const least = 14;
  const distance = Math.abs(row - col);
  const farthest = Math.max(layout.at.length - 1, 1);
  const share = Math.sqrt(distance / farthest);
  // A cubic goes three quarters of the way to its control points.
  const bulge = (Math.max(layout.reach * share, least) * 4) / 3;
  const apart = distance === 0 ? 5 : 0;
  const [from, to] = [layout.at[row] - apart, layout.at[col] + apart];
  const {base} = layout;
  const point = (/** @type {number} */ along, /** @type {number} */ away) =>
      layout.across ? `${round(along)} ${round(base - away)}` :
                      `${round(base + away)} ${round(along)}`;
  return `M${point(from, 0)}C${point(from, bulge)} ${point(to, bulge)} ` +
      `${point(to, 0)}`;
}

/** @param {number} x */
function round(x) {
  return Math.round(x * 10) / 10;
}

/**
 * The strongest weights, the weakest of them first, so that it is drawn below.
 * @param {ArrayLike<number>} weights row-major, count x count
 * @param {number} count
 * @param {number} most
 * @param {number} [only] of this row alone
 * @returns {Arc[]}
 */
export function strongestArcs(weights, count, most, only) {
  const arcs = [];
  const least = 0.005;
  for (let row = only ?? 0; row < (only === undefined ? count : only + 1);
       ++row) {
    for (let col = 0; col < count; ++col) {
      const weight = weights[row * count + col];
      if (weight >= least) arcs.push({row, col, weight});
    }
  }
  arcs.sort((x, y) => y.weight - x.weight);
  return arcs.slice(0, most).reverse();
}
