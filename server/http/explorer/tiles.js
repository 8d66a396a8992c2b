// @ts-check
// A matrix that is too large to be shown at once: pooled tiles, panned and
// zoomed, down to single elements.

import {colourMap, paintPixels} from './colours.js';
import {exactText, rangeText, shortText} from './numbers.js';
import {cellsCanvas} from './painter.js';
import {keyMove, listenToPointers} from './tile_input.js';
import {TileLoader} from './tile_loader.js';
import {colourRange, TilePainter} from './tile_paint.js';
import {makeParts, poolings} from './tile_parts.js';
import {levelFor, tilesOf, topLevel} from './tile_plan.js';
import {clamped, elementAt, fitted, panned, seenRanges, zoomed} from './tile_view.js';
import {ensureStyles, LiveText, onAppearance, themeOf, Tooltip} from './view.js';

/**
 * @typedef {import('./tile_loader.js').LoadStrip} LoadStrip
 * @typedef {import('./tile_loader.js').Pooling} Pooling
 * @typedef {{rows: number, cols: number, loadStrip: LoadStrip,
 *     map?: 'weights' | 'logits', pooling?: Pooling, title?: string,
 *     valueName?: string}} TileOptions
 * @typedef {{row: number, col: number}} Element
 */

const left = 44;
const top = 18;
// A view that rests so long, in milliseconds, is worth a request.
const settleTime = 120;
const zoomStep = 1.5;

/**
 * Events: 'hover' {queryBegin, queryEnd, keyBegin, keyEnd, value}, 'leave',
 * 'select' {row, col}, 'view' {queryBegin, queryEnd, keyBegin, keyEnd, tile},
 * 'progress' {done, total}, 'failure' {error}.
 */
export class TileExplorer extends EventTarget {
  /**
   * @param {HTMLElement} container
   * @param {TileOptions} options
   */
  constructor(container, options) {
    super();
    if (!(options.rows >= 1 && options.cols >= 1)) {
      throw new RangeError(
          `matrix is ${options.rows} x ${options.cols}; ` +
          'expected at least one row and one column');
    }
    ensureStyles();
    this.container = container;
    this.size = {rows: options.rows, cols: options.cols};
    this.map = options.map ?? 'weights';
    this.valueName = options.valueName ?? 'value';
    this.levels = topLevel(this.size);
    this.loader = new TileLoader({
      ...this.size,
      loadStrip: options.loadStrip,
      pooling: options.pooling ?? 'max'
    });
    this.painter = new TilePainter();
    this.parts = makeParts(options.title ?? '', this.loader.pooling);
    this.tooltip = new Tooltip(this.parts.root);
    this.live = new LiveText(this.parts.root);
    container.append(this.parts.root);
    this.context = /** @type {CanvasRenderingContext2D} */ (
        this.parts.canvas.getContext('2d'));
    this.plot = {left, top, width: 0, height: 0};
    this.view = {row: 0, col: 0, scale: 0};
    this.frame = 0;
    this.settling = 0;
    this.scaleKey = '';
    this.#listen();
    this.forget = onAppearance(container, () => this.#resize());
  }

  /** The level of the cells that are seen. */
  get level() {
    return levelFor(this.view.scale, this.levels);
  }

  /** Shows these elements, as large as they fit. @param {Element} from
   * @param {Element} to one past the last */
  showPart(from, to) {
    const scale = Math.min(
        this.plot.width / (to.col - from.col),
        this.plot.height / (to.row - from.row));
    this.#move(clamped({...from, scale}, this.size, this.plot));
  }

  /** Asks again for what failed, as after the server came back. */
  retry() {
    this.parts.retry.hidden = true;
    this.loader.retry();
    this.#status();
  }

  /** Forgets all tiles and asks anew, as after a change of the call. */
  reload() {
    this.parts.retry.hidden = true;
    this.loader.reset(this.loader.pooling);
    this.#soon();
  }

  /** What is seen, on a canvas of its own. */
  toCanvas() {
    const canvas = document.createElement('canvas');
    canvas.width = this.parts.canvas.width;
    canvas.height = this.parts.canvas.height;
    const context = canvas.getContext('2d');
    if (!context) throw new Error('canvas has no 2d context');
    context.fillStyle = themeOf(this.container).ground;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.parts.canvas, 0, 0);
    return canvas;
  }

  /** Ends the view and its requests. */
  destroy() {
    this.forget();
    clearTimeout(this.settling);
    cancelAnimationFrame(this.frame);
    this.loader.close();
    this.parts.root.remove();
  }

  #listen() {
    const {stage, select, smaller, larger, all, retry} = this.parts;
    listenToPointers(stage, {
      pan: (x, y) => this.#move(panned(this.view, x, y, this.size, this.plot)),
      zoom: (factor, point) =>
          this.#zoom(factor, {x: point.x - left, y: point.y - top}),
      hover: (event) => this.#hover(event),
      leave: () => this.#leave(),
      click: (event) => this.#click(event),
    });
    stage.addEventListener('keydown', (event) => this.#key(event));
    smaller.addEventListener('click', () => this.#zoom(1 / zoomStep));
    larger.addEventListener('click', () => this.#zoom(zoomStep));
    all.addEventListener(
        'click', () => this.#move(fitted(this.size, this.plot)));
    retry.addEventListener('click', () => this.retry());
    select.addEventListener('change', () => {
      this.loader.pooling = /** @type {Pooling} */ (select.value);
      this.reload();
    });
    this.loader.addEventListener('change', () => this.#soon());
    this.loader.addEventListener(
        'progress',
        (event) => this.#progress(/** @type {CustomEvent} */ (event).detail));
    this.loader.addEventListener(
        'failure',
        (event) =>
            this.#failure(/** @type {CustomEvent} */ (event).detail.error));
  }

  #resize() {
    const width = this.container.clientWidth;
    if (width === 0) return;
    const fits = this.view.scale === 0 ||
        this.view.scale === fitted(this.size, this.plot).scale;
    const shape = (width - left) * this.size.rows / this.size.cols;
    const height = Math.round(
        Math.min(Math.max(shape, 160), 640, Math.max(innerHeight * 0.75, 240)));
    this.plot = {left, top, width: width - left, height};
    const {canvas} = this.parts;
    canvas.width = Math.round(width * devicePixelRatio);
    canvas.height = Math.round((height + top) * devicePixelRatio);
    canvas.style.height = `${height + top}px`;
    this.#move(
        fits ? fitted(this.size, this.plot) :
               clamped(this.view, this.size, this.plot));
  }

  /** @param {import('./tile_view.js').View} view */
  #move(view) {
    this.view = view;
    this.tooltip.hide();
    this.#soon();
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.#settle(), settleTime);
  }

  /** @param {number} factor @param {{x: number, y: number}} [point] */
  #zoom(factor, point) {
    const middle = {x: this.plot.width / 2, y: this.plot.height / 2};
    const {view} = this;
    this.#move(zoomed(view, factor, point ?? middle, this.size, this.plot));
    return this.view.scale !== view.scale;
  }

  /** Asks for what is seen now, coarse tiles first. */
  #settle() {
    const {level, levels} = this;
    const seen = seenRanges(this.view, this.size, this.plot);
    const fine = tilesOf(seen, level, this.size);
    const {rows, cols} = this.size;
    const all = {queryBegin: 0, queryEnd: rows, keyBegin: 0, keyEnd: cols};
    const coarse = level === levels ? [] : tilesOf(all, levels, this.size);
    // All of the matrix costs much: near to the ground it can wait.
    const high = level >= levels - 2;
    this.loader.want(high ? [...coarse, ...fine] : [...fine, ...coarse]);
    this.#status();
    this.#emit('view', {...seen, tile: 2 ** level});
  }

  #soon() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
  }

  #draw() {
    if (this.plot.width <= 0) return;
    const theme = themeOf(this.container);
    const stale = this.painter.draw(this.context, {
      loader: this.loader,
      view: this.view,
      plot: this.plot,
      level: this.level,
      top: this.levels,
      map: this.map,
      theme,
      ratio: devicePixelRatio
    });
    this.#scale(theme);
    if (stale) this.#soon();
  }

  /** The colours and what they stand for. @param {import('./view.js').Theme}
   * theme */
  #scale(theme) {
    const range = colourRange(this.map, this.loader.rangeOf(this.level));
    const key = `${range} ${theme.dark}`;
    if (key === this.scaleKey) return;
    this.scaleKey = key;
    const steps = 128;
    const pixels = new Uint8ClampedArray(4 * steps);
    paintPixels({
      data: Array.from({length: steps}, (_, i) => i),
      pixels,
      colours: colourMap(this.map, theme.dark),
      range: [0, steps - 1],
      notFinite: theme.masked.notFinite
    });
    const {bar, low, high} = this.parts;
    bar.width = steps;
    bar.height = 1;
    bar.getContext('2d')?.drawImage(
        cellsCanvas({rows: 1, cols: steps, pixels}), 0, 0);
    low.textContent = shortText(range[0]);
    high.textContent = shortText(range[1]);
  }

  /** @param {{done: number, total: number, failed: number}} detail */
  #progress(detail) {
    const {progress} = this.parts;
    progress.max = Math.max(detail.total, 1);
    progress.value = detail.done;
    // It keeps its place, so that nothing jumps.
    const busy = detail.done < detail.total && detail.failed === 0;
    progress.style.visibility = busy ? 'visible' : 'hidden';
    this.parts.root.setAttribute('aria-busy', String(busy));
    this.#emit('progress', detail);
  }

  /** @param {unknown} error */
  #failure(error) {
    const reason = error instanceof Error ? error.message : String(error);
    this.parts.status.textContent = `A part did not come: ${reason}`;
    this.parts.retry.hidden = false;
    this.live.say(`A part did not come: ${reason}`, 0);
    this.#emit('failure', {error});
  }

  #status() {
    const seen = seenRanges(this.view, this.size, this.plot);
    const tile = 2 ** this.level;
    const cell = tile === 1 ? 'each cell is one element' :
                              `each cell is ${tile} × ${tile}`;
    const place = `${rangeText('row', seen.queryBegin, seen.queryEnd)}, ` +
        rangeText('key', seen.keyBegin, seen.keyEnd);
    if (this.parts.retry.hidden) {
      this.parts.status.textContent = `${place}; ${cell}`;
    }
    const centre =
        this.#words({x: this.plot.width / 2, y: this.plot.height / 2});
    if (document.activeElement === this.parts.stage && centre) {
      this.live.say(`${place}; ${cell}. In the middle: ${centre.lines[0]}`);
    }
  }

  /**
   * What is under a point of the plot: the finest cell that has come.
   * @param {{x: number, y: number}} point
   */
  #words(point) {
    const element = elementAt(this.view, point, this.size);
    if (!element) return undefined;
    let {level} = this;
    let value = this.loader.valueAt(level, element);
    while (value === undefined && level < this.levels) {
      value = this.loader.valueAt(++level, element);
    }
    const tile = 2 ** level;
    const begin = (/** @type {number} */ at) => Math.floor(at / tile) * tile;
    const queryBegin = begin(element.row);
    const keyBegin = begin(element.col);
    const ranges = {
      queryBegin,
      keyBegin,
      queryEnd: Math.min(queryBegin + tile, this.size.rows),
      keyEnd: Math.min(keyBegin + tile, this.size.cols)
    };
    const place = `${rangeText('row', queryBegin, ranges.queryEnd)}, ` +
        rangeText('key', keyBegin, ranges.keyEnd);
    return {
      element,
      detail: {...ranges, value},
      lines: [this.#valueWords(value, tile), place]
    };
  }

  /** @param {number | undefined} value @param {number} tile */
  #valueWords(value, tile) {
    if (value === undefined) return 'not here yet';
    if (Number.isNaN(value) || value === -Infinity) return 'masked';
    const pooled = poolings.find(([name]) => name === this.loader.pooling);
    const prefix = tile === 1 || !pooled ? '' : `${pooled[1]} `;
    return `${prefix}${this.valueName} ${exactText(value, true)}`;
  }

  /** @param {MouseEvent} event */
  #pointOf(event) {
    const box = this.parts.canvas.getBoundingClientRect();
    const point = {
      x: event.clientX - box.left - left,
      y: event.clientY - box.top - top
    };
    return point.x >= 0 && point.y >= 0 ? this.#words(point) : undefined;
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    const under = this.#pointOf(event);
    if (!under) return this.#leave();
    this.tooltip.show(under.lines, event.clientX, event.clientY);
    this.#emit('hover', under.detail);
  }

  #leave() {
    this.tooltip.hide();
    this.#emit('leave', null);
  }

  /** @param {string} name @param {unknown} detail */
  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, {detail}));
  }

  /** @param {PointerEvent} event */
  #click(event) {
    const under = this.#pointOf(event);
    if (!under) return;
    this.tooltip.show(under.lines, event.clientX, event.clientY);
    this.#emit('select', under.element);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const move = keyMove(event.key, event.shiftKey, this.plot);
    if (!move) return;
    event.preventDefault();
    if ('all' in move)
      this.#move(fitted(this.size, this.plot));
    else if ('factor' in move)
      this.#zoom(move.factor);
    else {
      this.#move(
          panned(this.view, move.pan.x, move.pan.y, this.size, this.plot));
    }
  }
}
