// Where things lie: heat maps, cursors, curves, arcs.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import * as arcs from '../../../server/http/explorer/arc_layout.js';
import {cellAt, movedCursor} from '../../../server/http/explorer/cursor.js';
import * as curves from '../../../server/http/explorer/curve_layout.js';
import {heatLayout, maskedRuns} from '../../../server/http/explorer/heat_layout.js';

const measure = (text, size) => [...text].length * size * 0.6;

test('a heat map is inside of its width at any size', () => {
  const names = Array.from({length: 600}, (_, i) => `a long token ${i}`);
  for (const width of [200, 360, 700, 1280]) {
    for (const [rows, cols] of [
             [1, 1], [5, 5], [256, 256], [1, 600], [600, 1], [3, 500]]) {
      for (const given of [names, undefined]) {
        const layout = heatLayout({
          rows,
          cols,
          width,
          maxHeight: 520,
          rowLabels: given,
          colLabels: given,
          title: true,
          legend: true,
          measure
        });
        const right = layout.x + layout.panelWidth;
        assert.ok(right <= width + 1e-9, `${width} ${rows} x ${cols}`);
        assert.ok(layout.x + layout.barWidth <= width);
        assert.ok(layout.panelHeight <= 520);
        assert.ok(layout.barY > layout.y + layout.panelHeight);
        assert.ok(layout.height > layout.barY);
        assert.ok(layout.cellWidth > 0 && layout.cellHeight > 0);
      }
    }
  }
});

test('cells are whole squares where there is room', () => {
  const layout = heatLayout({
    rows: 20,
    cols: 20,
    width: 500,
    maxHeight: 520,
    title: false,
    legend: false,
    measure
  });
  assert.equal(layout.cellWidth, layout.cellHeight);
  assert.equal(layout.cellWidth % 1, 0);
});

test('runs of masked cells are all of them, each once', () => {
  const matrix = {rows: 7, cols: 9};
  const mask = Array.from({length: 63}, (_, i) => (i * i) % 5 < 3);
  const seen = Array(63).fill(0);
  for (const run of maskedRuns(matrix, (i) => mask[i])) {
    for (let col = run.begin; col < run.end; ++col) ++seen[run.row * 9 + col];
    const after = run.row * 9 + run.end;
    if (run.end < 9) assert.equal(mask[after], false);
  }
  assert.deepEqual(seen.map(Boolean), mask);
  assert.ok(seen.every((count) => count <= 1));
});

test('keys move a cursor and never out of the matrix', () => {
  const matrix = {rows: 12, cols: 4};
  const from = {row: 5, col: 3};
  const moved = (key, control = false) =>
      movedCursor(key, control, from, matrix);
  assert.deepEqual(moved('ArrowUp'), {row: 4, col: 3});
  assert.deepEqual(moved('ArrowDown'), {row: 6, col: 3});
  assert.deepEqual(moved('ArrowLeft'), {row: 5, col: 2});
  assert.deepEqual(moved('ArrowRight'), {row: 5, col: 3});
  assert.deepEqual(moved('PageUp'), {row: 0, col: 3});
  assert.deepEqual(moved('PageDown'), {row: 11, col: 3});
  assert.deepEqual(moved('Home'), {row: 5, col: 0});
  assert.deepEqual(moved('End'), {row: 5, col: 3});
  assert.deepEqual(moved('Home', true), {row: 0, col: 0});
  assert.deepEqual(moved('End', true), {row: 11, col: 3});
  assert.equal(moved('a'), undefined);
  assert.equal(movedCursor('Home', false, from, {rows: 0, cols: 0}), undefined);
});

test('a point is in the cell around it', () => {
  const grid = {rows: 2, cols: 3, cellWidth: 10, cellHeight: 20};
  assert.deepEqual(cellAt(0, 0, grid), {row: 0, col: 0});
  assert.deepEqual(cellAt(29.9, 39.9, grid), {row: 1, col: 2});
  assert.equal(cellAt(30, 0, grid), undefined);
  assert.equal(cellAt(0, -0.1, grid), undefined);
});

const frame = {
  left: 40,
  top: 10,
  right: 440,
  bottom: 210
};

test('a curve has equal factors equally far on a logarithmic axis', () => {
  const points = [0.1, 1, 10].map((x) => ({x, y: x}));
  const {x, y} = curves.curveLayout(points, frame, true);
  assert.equal(x(0.1), 40);
  assert.ok(Math.abs(x(1) - 240) < 1e-9);
  assert.equal(x(10), 440);
  assert.equal(y(0), 210);
  assert.equal(y(10), 10);
});

test('a curve holds all its values, and ticks are in the frame', () => {
  for (const ys
           of [[0, 0, 0], [1e-9, 3e-9, 2e-9], [-5, 2, 7], [3.2, 3.2, 3.2]]) {
    const points = ys.map((y, i) => ({x: i + 1, y}));
    for (const log of [true, false]) {
      const layout = curves.curveLayout(points, frame, log);
      for (const point of points) {
        const at = layout.y(point.y);
        assert.ok(at >= frame.top - 1e-9 && at <= frame.bottom + 1e-9);
      }
      for (const {at} of layout.xTicks) {
        assert.ok(at >= frame.left - 1e-6 && at <= frame.right + 1e-6);
      }
      assert.ok(layout.yTicks.length >= 2);
    }
  }
});

test('a line has a gap where a value is not finite', () => {
  const ys = [1, 2, NaN, 3, 4];
  const points = ys.map((y, i) => ({x: i, y}));
  const same = (x) => x;
  assert.equal(
      curves.linePath(points, same, same),
      'M0.00 1.00L1.00 2.00M3.00 3.00L4.00 4.00');
  assert.equal(curves.nearestPoint(points, same, 2.6), 3);
});

test(
    'tokens are in a line where they fit, and in order without meeting', () => {
      for (const [count, width] of [
               [1, 300], [8, 900], [8, 300], [256, 1280]]) {
        const widths = Array.from({length: count}, (_, i) => 20 + (i % 4) * 15);
        const layout = arcs.arcLayout(widths, width);
        for (let i = 1; i < count; ++i) {
          const apart = layout.at[i] - layout.at[i - 1];
          assert.ok(
              apart >= (layout.across ? (widths[i] + widths[i - 1]) / 2 : 18));
        }
        const end = layout.across ? layout.width : layout.height;
        assert.ok(layout.at[count - 1] < end);
        assert.ok(layout.base + (layout.across ? 0 : layout.reach) <= width);
        if (layout.across) assert.ok(layout.base - layout.reach >= 0);
      }
      assert.equal(arcs.arcLayout(Array(8).fill(60), 900).across, true);
      assert.equal(arcs.arcLayout(Array(8).fill(60), 300).across, false);
    });

test(
    'an arc goes from its row to its key and no farther than the reach', () => {
      const layout = arcs.arcLayout(Array(8).fill(60), 900);
      const numbers = arcs.arcPath(layout, 7, 0).match(/-?[\d.]+/g).map(Number);
      assert.equal(numbers.length, 8);
      assert.equal(numbers[0], layout.at[7]);
      assert.equal(numbers[6], layout.at[0]);
      assert.equal(numbers[1], layout.base);
      assert.equal(numbers[7], layout.base);
      // A cubic's middle is a quarter of its ends and three of its controls.
      const middle =
          (numbers[1] + 3 * numbers[3] + 3 * numbers[5] + numbers[7]) / 8;
      assert.ok(Math.abs(layout.base - middle - layout.reach) < 0.2);
    });

test('the strongest arcs are kept, of one row where that is asked', () => {
  const weights = Float32Array.of(1, 0, 0, 0.25, 0.75, 0, 0.2, 0.3, 0.5);
  const all = arcs.strongestArcs(weights, 3, 4);
  assert.deepEqual(
      all.map(({weight}) => weight), [Math.fround(0.3), 0.5, 0.75, 1]);
  const one = arcs.strongestArcs(weights, 3, 9, 1);
  assert.deepEqual(
      one, [{row: 1, col: 0, weight: 0.25}, {row: 1, col: 1, weight: 0.75}]);
});
