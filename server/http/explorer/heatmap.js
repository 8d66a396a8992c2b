// @ts-check
// A matrix as a heat map: read by hovering, by keys, and by a screen reader.

import {rangeOf} from './colours.js';
import {cellAt, movedCursor} from './cursor.js';
import {heatLayout, titleSize, usedWidth} from './heat_layout.js';
import {paintHeatMap, paintTitle} from './heat_paint.js';
import {visibleText} from './labels.js';
import {exactText, isSingle, shortText} from './numbers.js';
import {CanvasPainter, measureText, SvgPainter} from './painter.js';
import {ensureStyles, freshId, lightTheme, LiveText, make, onAppearance, themeOf, Tooltip} from './view.js';

/**
 * @typedef {{rows: number, cols: number, data: ArrayLike<number>}} Matrix
 * @typedef {import('./cursor.js').Cell} Cell
 */

/**
 * What is shown. Without `masked`, cells of -∞ are masked. `format` writes the
 * numbers into cells that have room; the exact value is read by hovering.
 * @typedef {{matrix: Matrix,
 *     masked?: {data: ArrayLike<number>} | null,
 *     rowLabels?: readonly string[], colLabels?: readonly string[],
 *     map?: 'weights' | 'logits', range?: readonly [number, number],
 *     title?: string, format?: (value: number) => string,
 *     valueName?: string, maskedValue?: string,
 *     maxHeight?: number}} HeatInput
 */

/**
 * The same, with everything known.
 * @typedef {{matrix: Matrix, map: 'weights' | 'logits',
 *     rowLabels?: readonly string[], colLabels?: readonly string[],
 *     range: readonly [number, number], title: string,
 *     format: (value: number) => string, valueName: string,
 *     maskedValue?: string, maxHeight: number,
 *     isMasked: (index: number) => boolean, hasMasked: boolean,
 *     hasNotFinite: boolean, peak: number}} HeatFigure
 */

// Semibold letters are so much wider.
const boldFactor = 1.15;

/**
 * @param {HeatInput} input
 * @returns {HeatFigure}
 */
export function heatFigure(input) {
  const {matrix, masked} = input;
  const {rows, cols, data} = matrix;
  if (data.length !== rows * cols) {
    throw new RangeError(
        `matrix has ${data.length} values; expected ${rows} x ${cols}`,
    );
  }
  if (masked && masked.data.length !== data.length) {
    throw new RangeError(
        `masked has ${masked.data.length} cells; expected ${data.length}`,
    );
  }
  const map = input.map ?? 'weights';
  const isMasked = masked ? (/** @type {number} */ i) => masked.data[i] !== 0 :
                            (/** @type {number} */ i) => data[i] === -Infinity;
  const seen = extremes(data, isMasked);
  return {
    matrix,
    map,
    rowLabels: input.rowLabels,
    colLabels: input.colLabels,
    range: input.range ?? rangeOf(map, seen.low, seen.high),
    title: input.title ?? '',
    format: input.format ?? shortText,
    valueName: input.valueName ?? 'value',
    maskedValue: input.maskedValue,
    maxHeight: input.maxHeight ?? 520,
    isMasked,
    hasMasked: seen.masked > 0,
    hasNotFinite: seen.notFinite > 0,
    peak: seen.peak,
  };
}

/**
 * @param {ArrayLike<number>} data
 * @param {(index: number) => boolean} isMasked
 */
function extremes(data, isMasked) {
  let [low, high, peak] = [0, 0, -1];
  let [masked, notFinite] = [0, 0];
  for (let i = 0; i < data.length; ++i) {
    if (isMasked(i)) {
      ++masked;
    } else if (!Number.isFinite(data[i])) {
      ++notFinite;
    } else {
      if (peak < 0) low = high = data[i];
      if (peak < 0 || data[i] > data[peak]) peak = i;
      low = Math.min(low, data[i]);
      high = Math.max(high, data[i]);
    }
  }
  return {low, high, peak, masked, notFinite};
}

/**
 * One cell in words: its value, then where it is.
 * @param {HeatFigure} figure
 * @param {Cell} cell
 * @returns {[string, string]}
 */
export function cellWords(figure, {row, col}) {
  const {matrix} = figure;
  const index = row * matrix.cols + col;
  const value = matrix.data[index];
  const exact = exactText(value, isSingle(matrix.data));
  const name =
      (/** @type {string} */ noun, /** @type {number} */ i,
       /** @type {readonly string[] | undefined} */ names) =>
          names?.[i] === undefined ? `${noun} ${i}` :
                                     `${noun} ${i} “${visibleText(names[i])}”`;
  const place = `${name('row', row, figure.rowLabels)}, ` +
      `${name('column', col, figure.colLabels)}`;
  const masked = `masked, ${figure.valueName} ${figure.maskedValue ?? exact}`;
  return [
    figure.isMasked(index) ? masked : `${figure.valueName} ${exact}`, place
  ];
}

/**
 * Events: 'hover' {row, col, value}, 'leave', 'select' {row, col}.
 */
export class HeatMap extends EventTarget {
  /** @param {HTMLElement} container */
  constructor(container) {
    super();
    ensureStyles();
    this.container = container;
    this.root = make('figure', 'heat-map');
    this.caption = make('figcaption', '');
    const hint = make('p', 'view-hidden', {id: freshId('heat-hint')});
    hint.textContent =
        'Arrow keys move a cursor; Enter selects; Escape puts it away.';
    this.stage = make('div', 'heat-stage', {
      tabindex: '0',
      role: 'application',
      'aria-roledescription': 'heat map',
      'aria-describedby': hint.id
    });
    this.canvas = make('canvas', '', {'aria-hidden': 'true'});
    this.mark = make('div', 'heat-cursor', {'aria-hidden': 'true'});
    this.mark.hidden = true;
    this.stage.append(this.canvas, this.mark);
    this.root.append(this.caption, this.stage, hint);
    this.tooltip = new Tooltip(this.root);
    this.live = new LiveText(this.root);
    container.append(this.root);
    /** @type {HeatFigure | null} */
    this.figure = null;
    /** @type {import('./heat_layout.js').HeatLayout | null} */
    this.layout = null;
    /** @type {Cell | null} */
    this.cursor = null;
    this.#listen();
    this.forget = onAppearance(container, () => this.#draw());
  }

  /** @param {HeatInput} input */
  show(input) {
    const figure = heatFigure(input);
    const {rows, cols} = figure.matrix;
    this.figure = figure;
    if (this.cursor && (this.cursor.row >= rows || this.cursor.col >= cols)) {
      this.cursor = null;
    }
    this.caption.textContent = figure.title;
    this.caption.hidden = figure.title === '';
    this.stage.setAttribute('aria-label', this.#summary(figure));
    this.#draw();
  }

  /** Marks a cell, or none; no event follows. @param {Cell | null} cell */
  highlight(cell) {
    this.#place(cell);
  }

  /** Ends the view. */
  destroy() {
    this.forget();
    this.root.remove();
  }

  /** The figure as an SVG document, light on any page. */
  toSvg() {
    const {figure, layout} = this.#forExport();
    const painter = new SvgPainter(layout.width, layout.height);
    paintTitle(painter, figure.title, layout, lightTheme);
    paintHeatMap(painter, figure, layout, lightTheme, measureText);
    return painter.toString(this.#summary(figure));
  }

  /**
   * The figure on a canvas of its own, light on any page.
   * @param {number} [scale] pixels of the canvas for each CSS pixel
   */
  toCanvas(scale = 2) {
    const {figure, layout} = this.#forExport();
    const canvas = document.createElement('canvas');
    const painter =
        new CanvasPainter(canvas, layout.width, layout.height, scale);
    paintTitle(painter, figure.title, layout, lightTheme);
    paintHeatMap(painter, figure, layout, lightTheme, measureText);
    return canvas;
  }

  #forExport() {
    if (!this.figure) throw new Error('heat map: nothing is shown yet');
    const {figure} = this;
    const most = Math.max(this.container.clientWidth, 320);
    const layout = this.#layoutOf(figure, most, true);
    const title = measureText(figure.title, titleSize) * boldFactor;
    const width = Math.ceil(Math.max(usedWidth(layout), title) + 4);
    return {figure, layout: {...layout, width}};
  }

  /**
   * @param {HeatFigure} figure
   * @param {number} width
   * @param {boolean} title
   */
  #layoutOf(figure, width, title) {
    const {rows, cols} = figure.matrix;
    return heatLayout({
      rows,
      cols,
      width,
      title,
      maxHeight: figure.maxHeight,
      rowLabels: figure.rowLabels,
      colLabels: figure.colLabels,
      legend: figure.hasMasked || figure.hasNotFinite,
      measure: measureText
    });
  }

  /** @param {HeatFigure} figure */
  #summary(figure) {
    const {rows, cols} = figure.matrix;
    const size = `${figure.title || 'Matrix'}: ${rows} rows, ${cols} columns.`;
    if (figure.peak < 0) return size;
    const peak = {row: Math.floor(figure.peak / cols), col: figure.peak % cols};
    const [value, place] = cellWords(figure, peak);
    return `${size} Largest ${value}, at ${place}.`;
  }

  #draw() {
    // Without the container's padding, which is not to be painted on.
    const width = this.stage.clientWidth;
    if (!this.figure || width === 0) return;
    const layout = this.#layoutOf(this.figure, width, false);
    this.layout = layout;
    this.canvas.style.height = `${layout.height}px`;
    const painter =
        new CanvasPainter(this.canvas, width, layout.height, devicePixelRatio);
    paintHeatMap(
        painter, this.figure, layout, themeOf(this.container), measureText);
    this.#place(this.cursor);
  }

  /** @param {Cell | null} cell */
  #place(cell) {
    this.mark.hidden = !cell || !this.layout;
    if (!cell || !this.layout) return;
    const {x, y, cellWidth, cellHeight} = this.layout;
    const least = 5;
    const [width, height] =
        [Math.max(cellWidth, least), Math.max(cellHeight, least)];
    const {style} = this.mark;
    style.left = `${x + (cell.col + 0.5) * cellWidth - width / 2}px`;
    style.top = `${y + (cell.row + 0.5) * cellHeight - height / 2}px`;
    style.width = `${width}px`;
    style.height = `${height}px`;
  }

  #listen() {
    const {stage} = this;
    stage.addEventListener('pointermove', (event) => this.#hover(event));
    stage.addEventListener('pointerdown', (event) => this.#hover(event));
    stage.addEventListener('pointerleave', () => this.#leave());
    stage.addEventListener('click', (event) => {
      const cell = this.#cellOf(event);
      if (!cell) return;
      this.cursor = cell;
      this.#place(cell);
      this.#emit('select', cell);
    });
    stage.addEventListener('keydown', (event) => this.#key(event));
    stage.addEventListener('blur', () => this.#leave());
  }

  /** @param {MouseEvent} event */
  #cellOf(event) {
    if (!this.layout) return undefined;
    const box = this.canvas.getBoundingClientRect();
    return cellAt(
        event.clientX - box.left - this.layout.x,
        event.clientY - box.top - this.layout.y, this.layout);
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    const cell = this.#cellOf(event);
    if (!cell || !this.figure) return this.#leave();
    this.#place(cell);
    this.tooltip.show(
        cellWords(this.figure, cell), event.clientX, event.clientY);
    this.#emit('hover', cell);
  }

  #leave() {
    this.tooltip.hide();
    this.#place(document.activeElement === this.stage ? this.cursor : null);
    this.dispatchEvent(new CustomEvent('leave'));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!this.figure || event.altKey || event.metaKey) return;
    if (event.key === 'Escape') {
      this.cursor = null;
      this.#leave();
      return;
    }
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      if (this.cursor) this.#emit('select', this.cursor);
      return;
    }
    const first = {row: 0, col: 0};
    const moved = movedCursor(
        event.key, event.ctrlKey, this.cursor ?? first, this.figure.matrix);
    if (!moved) return;
    event.preventDefault();
    this.cursor = this.cursor ? moved : first;
    this.#read(this.cursor);
  }

  /** Says a cell and shows it beside the cursor. @param {Cell} cell */
  #read(cell) {
    if (!this.figure) return;
    const words = cellWords(this.figure, cell);
    this.#place(cell);
    const box = this.mark.getBoundingClientRect();
    this.tooltip.show(words, box.right, box.bottom);
    this.live.say(`${words[1]}: ${words[0]}`);
    this.#emit('hover', cell);
  }

  /** @param {string} name @param {Cell} cell */
  #emit(name, cell) {
    if (!this.figure) return;
    const {cols, data} = this.figure.matrix;
    const value = data[cell.row * cols + cell.col];
    this.dispatchEvent(new CustomEvent(name, {detail: {...cell, value}}));
  }
}
