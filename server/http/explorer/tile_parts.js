// @ts-check
// The elements of a map of tiles.

import {freshId, make} from './view.js';

/** @typedef {import('./tile_loader.js').Pooling} Pooling */

/**
 * What a cell shows, and how that is said.
 * @type {readonly (readonly [Pooling, string])[]}
 */
export const poolings = [['max', 'largest'], ['mean', 'mean'], ['sum', 'sum']];

/**
 * @param {string} title
 * @param {Pooling} pooling
 */
export function makeParts(title, pooling) {
  const root = make('figure', 'tile-map');
  const caption = make('figcaption', '');
  caption.textContent = title;
  caption.hidden = title === '';
  const bar = make('div', 'tile-bar');
  const label = make('label', '');
  const select = make('select', '', {id: freshId('tile-pooling')});
  for (const [value, text] of poolings) {
    select.append(new Option(text, value, false, value === pooling));
  }
  label.append('Each cell shows the ', select);
  const button = (/** @type {string} */ text, /** @type {string} */ name) => {
    const made = make('button', '', {type: 'button', 'aria-label': name});
    made.textContent = text;
    return made;
  };
  const smaller = button('−', 'Zoom out');
  const larger = button('+', 'Zoom in');
  const all = button('All', 'Show all');
  const retry = button('Try again', 'Try again to load what did not come');
  retry.hidden = true;
  const scale = make('span', 'tile-scale');
  const low = make('span', '');
  const colours = make('canvas', '', {'aria-hidden': 'true'});
  const high = make('span', '');
  scale.append(low, colours, high);
  const progress = make('progress', '', {'aria-label': 'Tiles that have come'});
  bar.append(label, smaller, larger, all, scale, progress, retry);
  const hint = make('p', 'view-hidden', {id: freshId('tile-hint')});
  hint.textContent = 'Arrow keys pan, with Shift by a whole view; plus and ' +
      'minus zoom; 0 shows all.';
  const stage = make('div', 'tile-stage', {
    tabindex: '0',
    role: 'application',
    'aria-roledescription': 'map of a matrix',
    'aria-label': title || 'Matrix',
    'aria-describedby': hint.id
  });
  const canvas = make('canvas', '', {'aria-hidden': 'true'});
  stage.append(canvas);
  const status = make('p', 'tile-status');
  root.append(caption, bar, stage, status, hint);
  return {
    root,
    select,
    smaller,
    larger,
    all,
    retry,
    bar: colours,
    low,
    high,
    progress,
    stage,
    canvas,
    status
  };
}
