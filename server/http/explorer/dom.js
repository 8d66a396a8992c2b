// @ts-check
// Making elements without markup in strings, so that no text is ever HTML.

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * `class`, `text`, `data-...`, `aria-...` and other attributes by name; a
 * function under `on...` listens; true and false set and leave out.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'text') {
      element.textContent = String(value);
    } else if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * The element with that id, which index.html has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element "${id}"`);
  return element;
}

/**
 * Replaces what is in an element.
 * @param {HTMLElement} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * A number for people: `digits` after the point, an exponent where that would
 * hide it.
 * @param {number} value
 * @param {number} [digits]
 * @returns {string}
 */
export function number(value, digits = 4) {
  if (Number.isNaN(value)) return 'NaN';
  if (value === Infinity) return '∞';
  if (value === -Infinity) return '−∞';
  const size = Math.abs(value);
  if (value !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6)) {
    return value.toExponential(2).replace('-', '−');
  }
  return value.toFixed(digits).replace('-', '−');
}

/** @param {number} share @returns {string} */
export function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
}
