// @ts-check
// A curve, such as entropy against temperature.

import {curveLayout, linePath, nearestPoint} from './curve_layout.js';
import {labelSize} from './labels.js';
import {exactText, shortText} from './numbers.js';
import {fontFamily, measureText} from './painter.js';
import {ensureStyles, lightTheme, LiveText, make, makeSvg, onAppearance, themeOf, Tooltip} from './view.js';

/**
 * @typedef {import('./curve_layout.js').Point} Point
 * @typedef {import('./curve_layout.js').Frame} Frame
 * @typedef {{points: readonly Point[], xLabel: string, yLabel: string,
 *     mark?: number, logX?: boolean, title?: string}} CurveInput mark: an x
 *     that is pointed out
 */

const height = 220;

/** Events: 'hover' {x, y}, 'leave', 'select' {x, y}. */
export class Curve extends EventTarget {
  /** @param {HTMLElement} container */
  constructor(container) {
    super();
    ensureStyles();
    this.container = container;
    this.root = make('div', 'curve');
    this.svg = makeSvg(
        'svg',
        {tabindex: 0, role: 'application', 'aria-roledescription': 'curve'});
    this.root.append(this.svg);
    this.tooltip = new Tooltip(this.root);
    this.live = new LiveText(this.root);
    container.append(this.root);
    /** @type {CurveInput | null} */
    this.input = null;
    /** @type {ReturnType<typeof curveLayout> | null} */
    this.layout = null;
    /** @type {Frame} */
    this.frame = {left: 0, top: 0, right: 1, bottom: 1};
    this.cursor = -1;
    this.pointer = makeSvg('g', {visibility: 'hidden'});
    this.#listen();
    this.forget = onAppearance(container, () => this.#draw());
  }

  /** @param {CurveInput} input points by rising x */
  show(input) {
    const {points} = input;
    if ((input.logX ?? true) && points.some((point) => !(point.x > 0))) {
      throw new RangeError('points have an x of 0 or below; expected above 0');
    }
    this.input = input;
    if (this.cursor >= points.length) this.cursor = -1;
    this.svg.setAttribute('aria-label', this.#summary(input));
    this.#draw();
  }

  /** Ends the view. */
  destroy() {
    this.forget();
    this.root.remove();
  }

  /** The figure as an SVG document, light on any page. */
  toSvg() {
    if (!this.input) throw new Error('curve: nothing is shown yet');
    const svg = makeSvg('svg');
    const width = Math.max(this.container.clientWidth, 320);
    this.#paint(svg, this.input, width, lightTheme);
    svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    return `${new XMLSerializer().serializeToString(svg)}\n`;
  }

  /** @param {CurveInput} input */
  #summary({points, xLabel, yLabel, title}) {
    const name = title ?? `${yLabel} against ${xLabel}`;
    if (points.length === 0) return `${name}: no points`;
    const [first, last] = [points[0], points[points.length - 1]];
    return `${name}: from ${shortText(first.y)} at ${shortText(first.x)} ` +
        `to ${shortText(last.y)} at ${shortText(last.x)}. ` +
        'Arrow keys read the points; Enter selects.';
  }

  #draw() {
    const width = this.container.clientWidth;
    if (!this.input || width === 0) return;
    const theme = themeOf(this.container);
    this.svg.replaceChildren();
    this.layout = this.#paint(this.svg, this.input, width, theme);
    this.pointer = makeSvg('g', {visibility: 'hidden'});
    this.pointer.append(
        makeSvg('line', {
          y1: this.frame.top,
          y2: this.frame.bottom,
          stroke: theme.faint,
          'stroke-dasharray': '3 3'
        }),
        makeSvg('circle', {
          r: 4,
          fill: theme.ground,
          stroke: theme.accent,
          'stroke-width': 2
        }));
    this.svg.append(this.pointer);
    if (document.activeElement === this.svg) this.#point(this.cursor);
  }

  /**
   * @param {SVGSVGElement} svg
   * @param {CurveInput} input
   * @param {number} width
   * @param {import('./view.js').Theme} theme
   */
  #paint(svg, input, width, theme) {
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('width', String(width));
    svg.setAttribute('height', String(height));
    svg.setAttribute('font-family', fontFamily);
    svg.setAttribute('font-size', String(labelSize));
    const {points} = input;
    if (points.length === 0) return null;
    this.frame = {left: 44, top: 22, right: width - 12, bottom: height - 38};
    const layout = curveLayout(points, this.frame, input.logX ?? true);
    svg.append(...axes(layout, this.frame, input, theme));
    if (input.mark !== undefined) {
      svg.append(...marked(layout, this.frame, input.mark, theme));
    }
    svg.append(makeSvg('path', {
      d: linePath(points, layout.x, layout.y),
      fill: 'none',
      stroke: theme.accent,
      'stroke-width': 2,
      'stroke-linejoin': 'round'
    }));
    for (const point of points) {
      if (!Number.isFinite(point.y)) continue;
      svg.append(makeSvg('circle', {
        cx: layout.x(point.x),
        cy: layout.y(point.y),
        r: 2.5,
        fill: theme.accent
      }));
    }
    return layout;
  }

  #listen() {
    const {svg} = this;
    svg.addEventListener('pointermove', (event) => {
      const index = this.#nearest(event);
      if (index >= 0) this.#read(index, event.clientX, event.clientY);
    });
    svg.addEventListener('pointerleave', () => this.#leave());
    svg.addEventListener('blur', () => this.#leave());
    svg.addEventListener('click', (event) => {
      this.cursor = this.#nearest(event);
      this.#emit('select', this.cursor);
    });
    svg.addEventListener('keydown', (event) => this.#key(event));
  }

  /** @param {MouseEvent} event */
  #nearest(event) {
    if (!this.layout || !this.input) return -1;
    const at = event.clientX - svgLeft(this.svg);
    return nearestPoint(this.input.points, this.layout.x, at);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const count = this.input?.points.length ?? 0;
    if (count === 0) return;
    const now = this.cursor;
    const moves = /** @type {Record<string, number>} */ (
        {ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: count - 1});
    if (event.key === 'Escape') this.#leave();
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.#emit('select', now);
    }
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.cursor = Math.min(Math.max(moves[event.key], 0), count - 1);
    const box = this.svg.getBoundingClientRect();
    const point = this.#point(this.cursor);
    if (point) this.#read(this.cursor, box.left + point.x, box.top + point.y);
  }

  /** Puts the pointer on a point. @param {number} index */
  #point(index) {
    const point = this.input?.points[index];
    if (!point || !this.layout || !Number.isFinite(point.y)) {
      this.pointer.setAttribute('visibility', 'hidden');
      return null;
    }
    const at = {x: this.layout.x(point.x), y: this.layout.y(point.y)};
    const [line, circle] = this.pointer.children;
    line.setAttribute('x1', String(at.x));
    line.setAttribute('x2', String(at.x));
    circle.setAttribute('cx', String(at.x));
    circle.setAttribute('cy', String(at.y));
    this.pointer.setAttribute('visibility', 'visible');
    return at;
  }

  /** @param {number} index @param {number} x @param {number} y */
  #read(index, x, y) {
    if (!this.input) return;
    const point = this.input.points[index];
    const {xLabel, yLabel} = this.input;
    this.#point(index);
    const words =
        [`${yLabel} ${exactText(point.y)}`, `${xLabel} ${exactText(point.x)}`];
    this.tooltip.show(words, x, y);
    if (index === this.cursor) this.live.say(`${words[1]}: ${words[0]}`);
    this.#emit('hover', index);
  }

  #leave() {
    this.tooltip.hide();
    this.pointer.setAttribute('visibility', 'hidden');
    this.dispatchEvent(new CustomEvent('leave'));
  }

  /** @param {string} name @param {number} index */
  #emit(name, index) {
    const point = this.input?.points[index];
    if (point) {
      this.dispatchEvent(new CustomEvent(name, {detail: {...point}}));
    }
  }
}

/** @param {SVGSVGElement} svg */
function svgLeft(svg) {
  return svg.getBoundingClientRect().left;
}

/**
 * @param {ReturnType<typeof curveLayout>} layout
 * @param {Frame} frame
 * @param {CurveInput} input
 * @param {import('./view.js').Theme} theme
 */
function axes(layout, frame, input, theme) {
  const {left, right, top, bottom} = frame;
  const grid = {stroke: theme.faint, 'stroke-opacity': 0.35};
  const ink = {fill: theme.ink};
  const parts = [];
  for (const {at, text} of layout.xTicks) {
    parts.push(
        makeSvg('line', {x1: at, x2: at, y1: top, y2: bottom, ...grid}),
        makeSvg(
            'text', {x: at, y: bottom + 14, 'text-anchor': 'middle', ...ink},
            text));
  }
  for (const {at, text} of layout.yTicks) {
    parts.push(
        makeSvg('line', {x1: left, x2: right, y1: at, y2: at, ...grid}),
        makeSvg(
            'text',
            {x: left - 6, y: at, dy: '0.35em', 'text-anchor': 'end', ...ink},
            text));
  }
  parts.push(
      makeSvg(
          'text', {
            x: (left + right) / 2,
            y: bottom + 31,
            'text-anchor': 'middle',
            ...ink
          },
          input.xLabel),
      makeSvg('text', {x: 4, y: 12, ...ink}, input.yLabel));
  return parts;
}

/**
 * @param {ReturnType<typeof curveLayout>} layout
 * @param {Frame} frame
 * @param {number} mark
 * @param {import('./view.js').Theme} theme
 */
function marked(layout, frame, mark, theme) {
  const at = layout.x(mark);
  if (!(at >= frame.left - 1 && at <= frame.right + 1)) return [];
  const text = shortText(mark);
  const right = at + measureText(text, labelSize) + 8 < frame.right;
  return [
    makeSvg('line', {
      x1: at,
      x2: at,
      y1: frame.top - 4,
      y2: frame.bottom,
      stroke: theme.ink,
      'stroke-width': 1.5
    }),
    makeSvg(
        'text', {
          x: at + (right ? 4 : -4),
          y: frame.top - 4,
          'text-anchor': right ? 'start' : 'end',
          fill: theme.ink,
          'font-weight': 600
        },
        text),
  ];
}
