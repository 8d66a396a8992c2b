// @ts-check
// Pointers, wheel and keys, as pans and zooms.

/**
 * @typedef {{x: number, y: number}} Point
 * @typedef {{
 *     pan: (x: number, y: number) => void,
 *     zoom: (factor: number, point: Point) => boolean,
 *     hover: (event: PointerEvent) => void,
 *     leave: () => void,
 *     click: (event: PointerEvent) => void}} Moves points are in pixels from
 *     the corner of the element; zoom returns whether anything changed
 */

// A pointer that moves less is a click.
const clickDistance = 4;

/**
 * The factor of a turn of the wheel.
 * @param {number} delta
 * @param {number} mode of WheelEvent: 0 pixels, 1 lines, 2 pages
 */
export function wheelFactor(delta, mode) {
  const pixels = delta * [1, 16, 400][mode];
  return 2 ** (-Math.min(Math.max(pixels, -400), 400) / 200);
}

/**
 * What two fingers that moved ask for: a zoom about their middle, and a pan.
 * @param {readonly [Point, Point]} before
 * @param {readonly [Point, Point]} after
 */
export function pinch(before, after) {
  const distance = (/** @type {readonly [Point, Point]} */[a, b]) =>
      Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1);
  const middle = (/** @type {readonly [Point, Point]} */[a, b]) =>
      ({x: (a.x + b.x) / 2, y: (a.y + b.y) / 2});
  const [from, to] = [middle(before), middle(after)];
  return {
    factor: distance(after) / distance(before),
    point: to,
    pan: {x: to.x - from.x, y: to.y - from.y}
  };
}

/**
 * What a key asks for.
 * @param {string} key of KeyboardEvent
 * @param {boolean} shift
 * @param {{width: number, height: number}} place
 * @returns {{pan: Point} | {factor: number} | {all: true} | undefined}
 */
export function keyMove(key, shift, {width, height}) {
  const share = shift ? 0.9 : 0.1;
  /** @type {Record<string, {pan: Point} | {factor: number} | {all: true}>} */
  const moves = {
    ArrowLeft: {pan: {x: share * width, y: 0}},
    ArrowRight: {pan: {x: -share * width, y: 0}},
    ArrowUp: {pan: {x: 0, y: share * height}},
    ArrowDown: {pan: {x: 0, y: -share * height}},
    PageUp: {pan: {x: 0, y: 0.9 * height}},
    PageDown: {pan: {x: 0, y: -0.9 * height}},
    '+': {factor: 1.5},
    '=': {factor: 1.5},
    '-': {factor: 1 / 1.5},
    0: {all: true},
    Home: {all: true},
  };
  return Object.hasOwn(moves, key) ? moves[key] : undefined;
}

/**
 * Listens to pointers and wheel over an element.
 * @param {HTMLElement} element
 * @param {Moves} moves
 */
export function listenToPointers(element, moves) {
  /** @type {Map<number, Point>} */
  const down = new Map();
  let travelled = 0;
  const pointOf = (/** @type {MouseEvent} */ event) => {
    const box = element.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };
  element.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || down.size >= 2) return;
    if (down.size === 0) travelled = 0;
    down.set(event.pointerId, pointOf(event));
    element.setPointerCapture(event.pointerId);
    element.classList.add('dragging');
  });
  element.addEventListener('pointermove', (event) => {
    const before = down.get(event.pointerId);
    if (!before) return moves.hover(event);
    const point = pointOf(event);
    travelled += Math.hypot(point.x - before.x, point.y - before.y);
    drag(down, event.pointerId, point, moves);
    down.set(event.pointerId, point);
  });
  const up = (/** @type {PointerEvent} */ event) => {
    if (!down.delete(event.pointerId)) return;
    if (down.size === 0) element.classList.remove('dragging');
    const click = event.type === 'pointerup' && travelled < clickDistance;
    if (click) moves.click(event);
  };
  element.addEventListener('pointerup', up);
  element.addEventListener('pointercancel', up);
  element.addEventListener('pointerleave', () => moves.leave());
  element.addEventListener('wheel', (event) => {
    const factor = wheelFactor(event.deltaY, event.deltaMode);
    // The page scrolls on where all is seen.
    const changed = moves.zoom(factor, pointOf(event));
    if (changed || factor > 1) event.preventDefault();
  }, {passive: false});
}

/**
 * @param {Map<number, Point>} down
 * @param {number} id
 * @param {Point} point
 * @param {Moves} moves
 */
function drag(down, id, point, moves) {
  const before = /** @type {Point} */ (down.get(id));
  if (down.size === 1) {
    moves.pan(point.x - before.x, point.y - before.y);
    return;
  }
  const still = [...down].find(([other]) => other !== id);
  if (!still) return;
  const {factor, point: middle, pan} =
      pinch([before, still[1]], [point, still[1]]);
  moves.pan(pan.x, pan.y);
  moves.zoom(factor, middle);
}
