// @ts-check
// A matrix as a small picture, one pixel for each cell, for the strip.

import {colourMap, MASKED, paintPixels, rangeOf} from './colours.js';
import {themeOf} from './view.js';

/** @typedef {import('./answers.js').Matrix} Matrix */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Matrix} matrix
 * @param {'weights' | 'logits'} map
 * @param {Uint8Array} [excluded] Cells of keys that may not be seen; without
 *     it, those of -Infinity.
 */
export function paintMini(canvas, matrix, map, excluded) {
  const {rows, cols, data} = matrix;
  const context = canvas.getContext('2d');
  if (!context || rows === 0 || cols === 0) return;
  canvas.width = cols;
  canvas.height = rows;
  const dark = themeOf(canvas).dark;
  const masked = MASKED[dark ? 'dark' : 'light'];
  const image = context.createImageData(cols, rows);
  paintPixels({
    data,
    colours: colourMap(map, dark),
    range: extent(map, data),
    notFinite: masked.notFinite,
    pixels: image.data,
  });
  for (let cell = 0; cell < data.length; ++cell) {
    if (excluded ? !excluded[cell] : data[cell] !== -Infinity) continue;
    const place = Math.floor(cell / cols) + cell % cols;
    image.data.set(place % 3 === 0 ? masked.stripe : masked.ground, 4 * cell);
  }
  context.putImageData(image, 0, 0);
  canvas.classList.toggle('fine', Math.max(rows, cols) > 128);
}

/** @param {'weights' | 'logits'} map @param {ArrayLike<number>} data */
function extent(map, data) {
  let low = Infinity;
  let high = -Infinity;
  for (let cell = 0; cell < data.length; ++cell) {
    if (!Number.isFinite(data[cell])) continue;
    low = Math.min(low, data[cell]);
    high = Math.max(high, data[cell]);
  }
  return low <= high ? rangeOf(map, low, high) : rangeOf(map, 0, 1);
}
