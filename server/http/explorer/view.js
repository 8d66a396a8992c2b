// @ts-check
// What all views share: the page's theme, a tooltip, words for screen readers,
// and drawing again when something changes.

import {luminance, MASKED} from './colours.js';

/**
 * @typedef {import('./colours.js').Rgb} Rgb
 * @typedef {{dark: boolean, ink: string, faint: string, ground: string,
 *     accent: string, masked: typeof MASKED.light}} Theme
 */

/** What exported figures have, whatever the page has. @type {Theme} */
export const lightTheme = {
  dark: false,
  ink: '#1b1b1f',
  faint: '#8b8b93',
  ground: '#ffffff',
  accent: '#1752a4',
  masked: MASKED.light,
};

/** @type {Theme} */
export const darkTheme = {
  dark: true,
  ink: '#ececf1',
  faint: '#85858f',
  ground: '#1b1b1f',
  accent: '#7cc7fb',
  masked: MASKED.dark,
};

/**
 * The theme of the page around an element: dark where its text is light.
 * @param {Element} element
 * @returns {Theme}
 */
export function themeOf(element) {
  const colour = getComputedStyle(element).color;
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return luminance([r, g, b]) > 0.3 ? darkTheme : lightTheme;
}

/**
 * Calls back when the size of an element or the theme changes, once for each
 * frame at the most. Returns what ends this.
 * @param {Element} element
 * @param {() => void} callback
 */
export function onAppearance(element, callback) {
  let frame = 0;
  const later = () => {
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      callback();
    });
  };
  let width = -1;
  const sizes = new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    later();
  });
  sizes.observe(element);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', later);
  const root = new MutationObserver(later);
  const attributes = {attributes: true};
  root.observe(document.documentElement, attributes);
  root.observe(document.body, attributes);
  // Moving the window to another screen.
  window.addEventListener('resize', later);
  return () => {
    cancelAnimationFrame(frame);
    sizes.disconnect();
    scheme.removeEventListener('change', later);
    root.disconnect();
    window.removeEventListener('resize', later);
  };
}

/** Links the views' style sheet where the page has not done so. */
export function ensureStyles() {
  const href = new URL('views.css', import.meta.url).href;
  const links = [...document.querySelectorAll('link')];
  if (links.some((link) => link.href === href)) return;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = href;
  document.head.append(link);
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} className
 * @param {Record<string, string>} [attributes]
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, className, attributes = {}) {
  const element = document.createElement(tag);
  element.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  return element;
}

const svgSpace = 'http://www.w3.org/2000/svg';

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {string} [text]
 * @returns {SVGElementTagNameMap[K]}
 */
export function makeSvg(tag, attributes = {}, text) {
  const element = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, String(value));
  }
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A few lines beside the pointer, kept inside the window. */
export class Tooltip {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    // What it says is also said by the view's live text.
    this.element = make('div', 'view-tooltip', {'aria-hidden': 'true'});
    this.element.hidden = true;
    parent.append(this.element);
  }

  /**
   * @param {readonly string[]} lines
   * @param {number} x in the window
   * @param {number} y
   */
  show(lines, x, y) {
    const {element} = this;
    element.replaceChildren(...lines.map((line, i) => {
      const row = make('div', i === 0 ? 'view-tooltip-value' : '');
      row.textContent = line;
      return row;
    }));
    element.hidden = false;
    const {width, height} = element.getBoundingClientRect();
    const gap = 14;
    const right = x + gap + width > innerWidth;
    const below = y + gap + height > innerHeight;
    const left = right ? Math.max(x - gap - width, 2) : x + gap;
    const top = below ? Math.max(y - gap - height, 2) : y + gap;
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}

/** Text that a screen reader says when it changes. */
export class LiveText {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.element = make('div', 'view-hidden', {'aria-live': 'polite'});
    this.timer = 0;
    parent.append(this.element);
  }

  /**
   * Says it after a rest, so that a key held down is not a flood of words.
   * @param {string} text
   * @param {number} [rest] milliseconds
   */
  say(text, rest = 150) {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.element.textContent = text;
    }, rest);
  }
}

let lastId = 0;

/** An id that no other element has. @param {string} noun */
export function freshId(noun) {
  return `${noun}-${++lastId}`;
}
