// @ts-check
// Tiles of a large matrix, onto a canvas, in its own pixels.

import {colourMap, css, inkOn, rangeOf} from './colours.js';
import {labelSize} from './labels.js';
import {indexTicks, niceStep, shortText} from './numbers.js';
import {cellsCanvas, fontFamily, hatchPeriod, hatchTile} from './painter.js';
import {bandCells, tileSide, tilesOf} from './tile_plan.js';
import {seenRanges} from './tile_view.js';

/**
 * @typedef {import('./tile_loader.js').TileLoader} TileLoader
 * @typedef {import('./tile_loader.js').Tile} Tile
 * @typedef {import('./tile_view.js').View} View
 * @typedef {import('./view.js').Theme} Theme
 * @typedef {import('./colours.js').Rgb} Rgb
 * @typedef {{left: number, top: number, width: number, height: number}} Plot
 *     in CSS pixels
 * @typedef {{loader: TileLoader, view: View, plot: Plot, level: number,
 *     top: number, map: 'weights' | 'logits', theme: Theme, ratio: number}}
 *     Scene ratio: device pixels for each CSS pixel
 * @typedef {{canvas: HTMLCanvasElement, key: string, masked: boolean,
 *     seen: boolean}} Image masked, seen: whether it has such cells
 */

// An image takes a millisecond or two; a frame has sixteen.
const mostImages = 3;
const numberScale = 46;

/**
 * The range of colours: a little more than that of the values, so that it does
 * not change with each tile that comes.
 * @param {'weights' | 'logits'} map
 * @param {readonly [number, number] | undefined} values
 * @returns {[number, number]}
 */
export function colourRange(map, values) {
  const [low, high] = rangeOf(map, ...(values ?? [0, 0]));
  if (map === 'logits') return [-above(high), above(high)];
  return [low < 0 ? -above(-low) : 0, high > 0 ? above(high) : 0];
}

/** The next of ten steps in each power of ten. @param {number} x above 0 */
function above(x) {
  return 10 ** (Math.ceil(Math.log10(x) * 10 - 1e-9) / 10);
}

/** Draws scenes and keeps the images of tiles. */
export class TilePainter {
  constructor() {
    /** @type {WeakMap<Tile, Image>} */
    this.images = new WeakMap();
    this.made = 0;
    /** @type {{key: string, canvas: HTMLCanvasElement} | null} */
    this.stripes = null;
  }

  /**
   * Many periods of the stripes in device pixels: filling is much faster with
   * them than with one period that is scaled.
   * @param {Scene} scene
   */
  #hatch({theme, ratio}) {
    const key = `${theme.dark} ${ratio}`;
    if (this.stripes?.key === key) return this.stripes.canvas;
    const period = hatchPeriod * Math.max(Math.round(ratio), 1);
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = period * Math.ceil(tileSide / period);
    const context = canvas.getContext('2d');
    const one = cellsCanvas(hatchTile(theme.masked));
    if (context) context.imageSmoothingEnabled = false;
    for (let y = 0; y < canvas.height; y += period) {
      for (let x = 0; x < canvas.width; x += period) {
        context?.drawImage(one, x, y, period, period);
      }
    }
    this.stripes = {key, canvas};
    return canvas;
  }

  /**
   * Returns whether some tile still has an image of before.
   * @param {CanvasRenderingContext2D} context
   * @param {Scene} scene
   */
  draw(context, scene) {
    const {loader, view, plot, ratio, theme} = scene;
    this.made = 0;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    context.save();
    const corner = {x: plot.left * ratio, y: plot.top * ratio};
    context.beginPath();
    context.rect(corner.x, corner.y, plot.width * ratio, plot.height * ratio);
    context.clip();
    // The last cells may stand for fewer elements than they are wide.
    const box = boxOf(scene, 0, 0, loader.size.rows, loader.size.cols);
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    context.globalAlpha = 0.15;
    context.fillStyle = theme.faint;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha = 1;
    context.imageSmoothingEnabled = false;
    const hatch = context.createPattern(this.#hatch(scene), 'repeat');
    // Stripes move with what they are on.
    hatch?.setTransform(new DOMMatrix([1, 0, 0, 1, box.x, box.y]));
    let stale = false;
    const seen = seenRanges(view, loader.size, plot);
    for (const level of levelsToDraw(scene)) {
      for (const id of tilesOf(seen, level, loader.size)) {
        const tile = loader.get(id);
        if (tile && !this.#tile(context, scene, tile, hatch)) stale = true;
      }
    }
    if (view.scale >= numberScale) paintNumbers(context, scene);
    context.restore();
    paintAxes(context, scene);
    return stale;
  }

  /**
   * Returns whether the tile's image was of now.
   * @param {CanvasRenderingContext2D} context
   * @param {Scene} scene
   * @param {Tile} tile
   * @param {CanvasPattern | null} hatch
   */
  #tile(context, scene, tile, hatch) {
    const {loader, map, theme, ratio, view} = scene;
    const {level, row, col} = tile.id;
    const range = colourRange(map, loader.rangeOf(level));
    const key = `${tile.version} ${range} ${map} ${theme.dark}`;
    let image = this.images.get(tile);
    const fresh = image?.key === key || this.made < mostImages;
    if (image?.key !== key && fresh) {
      image = tileImage(tile, range, map, theme, key, image?.canvas);
      this.images.set(tile, image);
      ++this.made;
    }
    if (!image) return false;
    const cell = 2 ** level;
    const begin = {row: row * tileSide, col: col * tileSide};
    const all = boxOf(
        scene, begin.row * cell, begin.col * cell,
        (begin.row + tile.rows) * cell, (begin.col + tile.cols) * cell);
    if (image.masked && hatch) {
      context.fillStyle = hatch;
      for (const [from, to] of readyRows(tile)) {
        const box = boxOf(
            scene, (begin.row + from) * cell, begin.col * cell,
            Math.min((begin.row + to) * cell, loader.size.rows),
            Math.min((begin.col + tile.cols) * cell, loader.size.cols));
        context.fillRect(box.x, box.y, box.width, box.height);
      }
    }
    if (!image.seen) return fresh;
    context.imageSmoothingEnabled = view.scale * cell * ratio < 1;
    context.drawImage(image.canvas, all.x, all.y, all.width, all.height);
    return fresh;
  }
}

/**
 * The levels from the one that covers all of what is seen to the finest. In
 * rest this is one.
 * @param {Scene} scene
 */
function levelsToDraw({loader, view, plot, level, top}) {
  const seen = seenRanges(view, loader.size, plot);
  const levels = [];
  for (let coarser = level; coarser <= top; ++coarser) {
    levels.unshift(coarser);
    const whole = tilesOf(seen, coarser, loader.size)
                      .every((id) => loader.get(id)?.ready.every(Boolean));
    if (whole) break;
  }
  return levels;
}

/**
 * Elements in device pixels. Edges are whole, so that there is no seam between
 * neighbours.
 * @param {Scene} scene
 * @param {number} rowBegin
 * @param {number} colBegin
 * @param {number} rowEnd
 * @param {number} colEnd
 */
function boxOf({view, plot, ratio}, rowBegin, colBegin, rowEnd, colEnd) {
  const x = (/** @type {number} */ col) =>
      Math.round((plot.left + (col - view.col) * view.scale) * ratio);
  const y = (/** @type {number} */ row) =>
      Math.round((plot.top + (row - view.row) * view.scale) * ratio);
  return {
    x: x(colBegin),
    y: y(rowBegin),
    width: x(colEnd) - x(colBegin),
    height: y(rowEnd) - y(rowBegin)
  };
}

/** Runs of rows that have come. @param {Tile} tile */
function readyRows(tile) {
  const cells = bandCells(tile.id.level);
  /** @type {[number, number][]} */
  const runs = [];
  tile.ready.forEach((ready, band) => {
    if (!ready) return;
    const begin = band * cells;
    const end = Math.min(begin + cells, tile.rows);
    const run = runs[runs.length - 1];
    if (run && run[1] === begin)
      run[1] = end;
    else
      runs.push([begin, end]);
  });
  return runs;
}

/**
 * A pixel for each cell; masked ones, and those that have not come, are clear.
 * @param {Tile} tile
 * @param {readonly [number, number]} range
 * @param {'weights' | 'logits'} map
 * @param {Theme} theme
 * @param {string} key
 * @param {HTMLCanvasElement} [old]
 * @returns {Image}
 */
function tileImage(tile, range, map, theme, key, old) {
  const canvas = old ?? document.createElement('canvas');
  canvas.width = tile.cols;
  canvas.height = tile.rows;
  const context =
      /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const image = context.createImageData(tile.cols, tile.rows);
  const colours = colourMap(map, theme.dark);
  const steps = 255;
  const table = Array.from({length: steps + 1}, (_, i) => colours(i / steps));
  const [low, high] = range;
  const factor = steps / (high - low || 1);
  let [masked, seen] = [false, false];
  for (const [from, to] of readyRows(tile)) {
    for (let i = from * tile.cols; i < to * tile.cols; ++i) {
      const value = tile.values[i];
      if (Number.isNaN(value) || value === -Infinity) {
        masked = true;
        continue;
      }
      seen = true;
      const step =
          Math.min(Math.max(Math.round((value - low) * factor), 0), steps);
      const colour = value === Infinity ? theme.masked.notFinite : table[step];
      image.data[4 * i] = colour[0];
      image.data[4 * i + 1] = colour[1];
      image.data[4 * i + 2] = colour[2];
      image.data[4 * i + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return {canvas, key, masked, seen};
}

/**
 * Values in cells that are single elements and large.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 */
function paintNumbers(context, {loader, view, plot, ratio, map, theme}) {
  const range = colourRange(map, loader.rangeOf(0));
  const colours = colourMap(map, theme.dark);
  const seen = seenRanges(view, loader.size, plot);
  context.font = `${labelSize * ratio}px ${fontFamily}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (let row = seen.queryBegin; row < seen.queryEnd; ++row) {
    for (let col = seen.keyBegin; col < seen.keyEnd; ++col) {
      const value = loader.valueAt(0, {row, col});
      if (value === undefined || !Number.isFinite(value)) continue;
      const share = (value - range[0]) / (range[1] - range[0] || 1);
      context.fillStyle = css(inkOn(colours(share)));
      context.fillText(
          shortText(value),
          (plot.left + (col + 0.5 - view.col) * view.scale) * ratio,
          (plot.top + (row + 0.5 - view.row) * view.scale) * ratio);
    }
  }
}

/**
 * Indices of rows on the left and of keys above, as many as fit.
 * @param {CanvasRenderingContext2D} context
 * @param {Scene} scene
 */
function paintAxes(context, {loader, view, plot, ratio, theme}) {
  const seen = seenRanges(view, loader.size, plot);
  const {left, top, width, height} = plot;
  // Numbers stand beside the matrix where that is smaller than its place.
  const edge = {
    x: left + Math.max(-view.col * view.scale, 0),
    y: top + Math.max(-view.row * view.scale, 0)
  };
  context.font = `${labelSize * ratio}px ${fontFamily}`;
  context.fillStyle = theme.ink;
  context.textBaseline = 'middle';
  const apart = (/** @type {number} */ pixels) =>
      Math.max(Math.round(niceStep(Math.max(pixels / view.scale, 1))), 1);
  context.textAlign = 'right';
  for (const row of indexTicks(seen.queryBegin, seen.queryEnd, apart(24))) {
    const y = top + (row + 0.5 - view.row) * view.scale;
    if (y < top + 4 || y > top + height - 4) continue;
    context.fillText(String(row), (edge.x - 5) * ratio, y * ratio);
  }
  context.textAlign = 'center';
  for (const col of indexTicks(seen.keyBegin, seen.keyEnd, apart(56))) {
    const x = left + (col + 0.5 - view.col) * view.scale;
    if (x < left + 4 || x > left + width - 12) continue;
    context.fillText(String(col), x * ratio, (edge.y - 9) * ratio);
  }
}
