// What a heat map says of its cells, before anything is drawn.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {rowWords} from '../../../server/http/explorer/arcs.js';
import {headWords} from '../../../server/http/explorer/head_grid.js';
import {cellWords, heatFigure} from '../../../server/http/explorer/heatmap.js';
import {escapeXml, hatchTile, SvgPainter} from '../../../server/http/explorer/painter.js';
import {colourRange} from '../../../server/http/explorer/tile_paint.js';

const matrix = {
  rows: 2,
  cols: 3,
  data: Float32Array.of(0.1, 0.2, 0, -0.5, 1e-8, NaN)
};

test('a cell is said by its exact value, row and column', () => {
  const figure = heatFigure({
    matrix,
    rowLabels: ['the', 'cat'],
    colLabels: ['the', 'cat', '\n'],
    valueName: 'weight'
  });
  assert.deepEqual(
      cellWords(figure, {row: 0, col: 0}),
      ['weight 0.1', 'row 0 “the”, column 0 “the”']);
  assert.deepEqual(
      cellWords(figure, {row: 1, col: 2}),
      ['weight NaN', 'row 1 “cat”, column 2 “⏎”']);
  assert.equal(cellWords(figure, {row: 1, col: 1})[0], 'weight 1e−8');
});

test('a masked cell is said to be masked, and has no part in the range', () => {
  const masked = {data: Uint8Array.of(0, 1, 1, 0, 0, 1)};
  const figure = heatFigure({matrix, masked, valueName: 'weight'});
  assert.equal(cellWords(figure, {row: 0, col: 2})[0], 'masked, weight 0');
  assert.deepEqual(figure.range, [-0.5, Math.fround(0.1)]);
  assert.equal(figure.peak, 0);
  assert.equal(figure.hasNotFinite, false);
});

test('without a mask, cells of minus infinity are masked', () => {
  const data = Float32Array.of(-3, -Infinity, 1, Infinity);
  const figure = heatFigure({matrix: {rows: 2, cols: 2, data}, map: 'logits'});
  assert.deepEqual(
      [0, 1, 2, 3].map(figure.isMasked), [false, true, false, false]);
  assert.equal(figure.hasNotFinite, true);
  assert.deepEqual(figure.range, [-3, 3]);
});

test('sizes that do not agree are refused with both', () => {
  const wrong = {rows: 2, cols: 2, data: Float32Array.of(1, 2, 3)};
  assert.throws(() => heatFigure({matrix: wrong}), /3 values; expected 2 x 2/);
  assert.throws(
      () => heatFigure({matrix, masked: {data: [1]}}), /1 cells; expected 6/);
});

test('a row of arcs is said with the strongest first', () => {
  const weights = Float32Array.of(1, 0, 0.25, 0.75);
  const input = {tokens: ['a', ' '], weights};
  assert.equal(
      rowWords(input, 1), '“␣” (1) attends to “␣” (1) 0.75, “a” (0) 0.25');
  assert.equal(
      rowWords({tokens: ['a'], weights: [0]}, 0), '“a” (0) attends to nothing');
});

test('a head is said with its note, entropy and death', () => {
  const head = {
    head: 3,
    matrix,
    note: 'previous token',
    entropyRatio: 0.125,
    dead: true
  };
  assert.equal(
      headWords(head),
      'Head 3 dead previous token, entropy 13 % of the maximum');
  assert.equal(headWords({head: 0, matrix}), 'Head 0');
});

test('SVG is well-formed whatever the texts are', () => {
  assert.equal(escapeXml('<a b="&">\u0001'), '&lt;a b=&quot;&amp;&quot;&gt;�');
  const painter = new SvgPainter(100, 50);
  painter.text('<script>', 1, 2, {size: 11, colour: '#000', up: true});
  painter.cells(
      {
        rows: 1,
        cols: 2,
        pixels: Uint8ClampedArray.of(255, 0, 0, 255, 0, 0, 255, 255)
      },
      {x: 0, y: 0, width: 20, height: 10});
  painter.hatch(
      [{x: 0, y: 0, width: 5, height: 5}],
      {ground: [1, 2, 3], stripe: [4, 5, 6]});
  const svg = painter.toString('a & b');
  assert.ok(svg.includes('<title>a &amp; b</title>'));
  assert.ok(!svg.includes('<script>'));
  assert.ok(svg.includes('fill="#ff0000"') && svg.includes('fill="#0000ff"'));
  assert.ok(svg.includes('<rect x="10" y="0" width="10" height="10"'));
});

test('stripes go on from one period of the hatch to the next', () => {
  const {rows, cols, pixels} =
      hatchTile({ground: [9, 9, 9], stripe: [1, 1, 1]});
  const isStripe = (x, y) => pixels[4 * ((y % rows) * cols + (x % cols))] === 1;
  for (let y = 1; y < 3 * rows; ++y) {
    for (let x = 0; x < 3 * cols; ++x) {
      assert.equal(isStripe(x, y), isStripe(x + 1, y - 1));
    }
  }
});

test(
    'the colours of tiles go a little beyond their values, at round steps',
    () => {
      for (let value = 1e-6; value < 1e6; value *= 1.37) {
        const [low, high] = colourRange('weights', [0, value]);
        assert.equal(low, 0);
        assert.ok(
            high >= value * (1 - 1e-9) && high <= value * 1.26, `${value}`);
        assert.deepEqual(colourRange('logits', [-value, 0]), [-high, high]);
        assert.deepEqual(colourRange('weights', [0, high]), [0, high]);
      }
      assert.deepEqual(colourRange('weights', undefined), [0, 1]);
    });
