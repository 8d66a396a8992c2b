// Which tiles are asked for, kept and drawn; a matrix whose values are known.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {setImmediate as turn} from 'node:timers/promises';

import {keyMove, pinch, wheelFactor} from '../../../server/http/explorer/tile_input.js';
import {TileLoader} from '../../../server/http/explorer/tile_loader.js';
import * as plan from '../../../server/http/explorer/tile_plan.js';
import * as views from '../../../server/http/explorer/tile_view.js';

const size = {
  rows: 32768,
  cols: 32768
};
const place = {
  width: 1200,
  height: 640
};

test('a tile is at most 256 KiB, and the top level is one tile', () => {
  assert.equal(plan.tileSide ** 2 * 4, 256 * 1024);
  for (const [rows, cols, top] of [
           [1, 1, 0], [256, 256, 0], [257, 1, 1], [32768, 32768, 7],
           [1000, 40000, 8]]) {
    assert.equal(plan.topLevel({rows, cols}), top);
    const all = {queryBegin: 0, queryEnd: rows, keyBegin: 0, keyEnd: cols};
    assert.equal(plan.tilesOf(all, top, {rows, cols}).length, 1);
  }
});

test('cells of the level for a scale are about one pixel', () => {
  for (let scale = 1 / 128; scale < 64; scale *= 1.13) {
    const cell = 2 ** plan.levelFor(scale, 7) * scale;
    if (scale > 1 / 90 && scale <= 1) assert.ok(cell > 0.7 && cell < 1.42);
    if (scale >= 1) assert.equal(plan.levelFor(scale, 7), 0);
  }
});

test('the tiles of a view cover it and no more, the middle first', () => {
  for (const level of [0, 3, 6]) {
    const side = plan.tileSide * 2 ** level;
    const seen =
        {queryBegin: 700, queryEnd: 9001, keyBegin: 12000, keyEnd: 17000};
    const tiles = plan.tilesOf(seen, level, size);
    const rows = new Set(tiles.map(({row}) => row));
    const cols = new Set(tiles.map(({col}) => col));
    assert.equal(tiles.length, rows.size * cols.size);
    assert.equal(Math.min(...rows), Math.floor(700 / side));
    assert.equal(Math.max(...rows), Math.floor(9000 / side));
    assert.equal(Math.min(...cols), Math.floor(12000 / side));
    assert.equal(Math.max(...cols), Math.floor(16999 / side));
    const away = tiles.map(
        ({row, col}) => Math.hypot(
            (row + 0.5) * side - 4850.5, (col + 0.5) * side - 14500));
    assert.deepEqual(away, [...away].sort((x, y) => x - y));
  }
});

test('strips are bands of bounded rows that make up the tiles', () => {
  for (const odd of [size, {rows: 5000, cols: 3001}, {rows: 1, cols: 9999}]) {
    for (let level = 0; level <= plan.topLevel(odd); ++level) {
      const seen = {
        queryBegin: 0,
        queryEnd: Math.min(odd.rows, 3000),
        keyBegin: 0,
        keyEnd: Math.min(odd.cols, 3000)
      };
      const tiles = plan.tilesOf(seen, level, odd);
      const strips = plan.stripsOf(tiles, odd, () => true);
      const covered = new Map();
      for (const strip of strips) {
        const tall = strip.queryEnd - strip.queryBegin;
        assert.ok(tall > 0 && tall <= Math.max(2048, 2 ** level));
        assert.equal(strip.queryBegin % strip.tile, 0);
        assert.equal(strip.keyBegin % strip.tile, 0);
        assert.ok(strip.queryEnd <= odd.rows && strip.keyEnd <= odd.cols);
        for (let col = strip.colBegin; col < strip.colEnd; ++col) {
          const key = plan.tileKey({level, row: strip.tileRow, col});
          covered.set(
              key, (covered.get(key) ?? 0) + Math.ceil(tall / strip.tile));
        }
      }
      assert.equal(covered.size, tiles.length);
      for (const id of tiles) {
        assert.equal(
            covered.get(plan.tileKey(id)), plan.tileCells(id, odd).rows);
      }
    }
  }
});

test('what has come is not asked for again', () => {
  const tiles = [0, 1, 2, 3, 4].map((col) => ({level: 0, row: 2, col}));
  const strips = plan.stripsOf(tiles, size, ({col}) => col !== 2);
  assert.deepEqual(
      strips.map(({colBegin, colEnd}) => [colBegin, colEnd]), [[0, 2], [3, 5]]);
});

test('a view stays inside of the matrix', () => {
  const all = views.fitted(size, place);
  assert.equal(all.scale, 640 / 32768);
  assert.equal(all.row, 0);
  assert.ok(Math.abs(all.col + (1200 / all.scale - 32768) / 2) < 1e-6);
  let view = all;
  for (let i = 0; i < 60; ++i) {
    view =
        views.zoomed(view, i % 7 ? 1.4 : 0.5, {x: 20 * i, y: 300}, size, place);
    view = views.panned(view, 500 - i * 37, i * 41 - 900, size, place);
    const seen = views.seenRanges(view, size, place);
    assert.ok(seen.queryBegin >= 0 && seen.queryEnd <= size.rows);
    assert.ok(seen.queryEnd > seen.queryBegin && seen.keyEnd > seen.keyBegin);
    assert.ok(view.scale >= all.scale && view.scale <= views.largestScale);
  }
});

test('what is under the pointer stays there while zooming', () => {
  const view = {row: 9000.25, col: 12000.5, scale: 0.5};
  const point = {x: 333, y: 222};
  const next = views.zoomed(view, 3, point, size, place);
  assert.ok(
      Math.abs(next.col + 333 / next.scale - (12000.5 + 333 / 0.5)) < 1e-6);
  assert.ok(
      Math.abs(next.row + 222 / next.scale - (9000.25 + 222 / 0.5)) < 1e-6);
  assert.deepEqual(views.elementAt(view, point, size), {row: 9444, col: 12666});
  assert.equal(
      views.elementAt({row: -5, col: 0, scale: 1}, {x: 0, y: 0}, size),
      undefined);
});

test('at the largest scale a few elements are seen, exactly', () => {
  const view = views.clamped({row: 100, col: 200, scale: 1e9}, size, place);
  assert.equal(view.scale, 64);
  assert.deepEqual(
      views.seenRanges(view, size, place),
      {queryBegin: 100, queryEnd: 110, keyBegin: 200, keyEnd: 219});
});

test('fingers zoom by their distance and pan by their middle', () => {
  const move =
      pinch([{x: 0, y: 0}, {x: 10, y: 0}], [{x: 0, y: 0}, {x: 30, y: 0}]);
  assert.deepEqual(move, {factor: 3, point: {x: 15, y: 0}, pan: {x: 10, y: 0}});
  assert.equal(wheelFactor(-200, 0), 2);
  assert.equal(wheelFactor(200, 0), 0.5);
  assert.ok(wheelFactor(-3, 1) > 1);
  assert.deepEqual(keyMove('ArrowRight', true, place), {pan: {x: -1080, y: 0}});
  assert.deepEqual(keyMove('0', false, place), {all: true});
  assert.equal(keyMove('x', false, place), undefined);
});

/** A matrix whose pooled cells tell where they are. */
function source(matrix) {
  const calls = [];
  const open = [];
  const loadStrip = (request) => {
    calls.push(request);
    return new Promise((resolve, reject) => {
      request.signal.addEventListener(
          'abort', () => reject(new Error('abort')));
      open.push({request, reject, resolve: () => resolve(pooled(request))});
    });
  };
  const pooled = ({queryBegin, queryEnd, keyBegin, keyEnd, tile}) => {
    const rows = Math.ceil((queryEnd - queryBegin) / tile);
    const cols = Math.ceil((keyEnd - keyBegin) / tile);
    const data = Float32Array.from(
        {length: rows * cols},
        (_, i) => (queryBegin / tile + Math.floor(i / cols)) * 1000 +
            keyBegin / tile + (i % cols));
    return {rows, cols, data};
  };
  const answer = async () => {
    while (open.length) {
      open.shift().resolve();
      await turn();
    }
  };
  return {...matrix, loadStrip, calls, open, answer, pooling: 'max'};
}

const small = {
  rows: 1500,
  cols: 1100
};
const everything = {
  queryBegin: 0,
  queryEnd: 1500,
  keyBegin: 0,
  keyEnd: 1100
};

test(
    'every cell that is asked for comes, with the value of its place',
    async () => {
      const from = source(small);
      const loader = new TileLoader(from);
      for (const level of [0, 1, 3]) {
        loader.want(plan.tilesOf(everything, level, small));
        await from.answer();
        for (let row = 0; row < 1500; row += 13) {
          for (let col = 0; col < 1100; col += 7) {
            const cell = {row: row >> level, col: col >> level};
            assert.equal(
                loader.valueAt(level, {row, col}), cell.row * 1000 + cell.col);
          }
        }
      }
      assert.equal(loader.valueAt(2, {row: 0, col: 0}), undefined);
      assert.deepEqual(loader.rangeOf(0), [0, 1499 * 1000 + 1099]);
    });

test('nothing is asked for twice, and few things at once', async () => {
  const from = source(small);
  const loader = new TileLoader({...from, parallel: 3});
  loader.want(plan.tilesOf(everything, 0, small));
  loader.want(plan.tilesOf(everything, 0, small));
  assert.equal(from.calls.length, 3);
  await from.answer();
  assert.equal(from.calls.length, 6);
  const keys = from.calls.map(({queryBegin}) => queryBegin);
  assert.equal(new Set(keys).size, 6);
  loader.want(plan.tilesOf(everything, 0, small));
  assert.equal(from.calls.length, 6);
});

test(
    'what goes out of view is aborted, and what comes is asked for',
    async () => {
      const from = source(small);
      const loader = new TileLoader(from);
      loader.want([{level: 0, row: 0, col: 0}, {level: 0, row: 1, col: 0}]);
      const [first, second] = from.calls;
      loader.want([{level: 0, row: 1, col: 0}, {level: 0, row: 4, col: 2}]);
      assert.equal(first.signal.aborted, true);
      assert.equal(second.signal.aborted, false);
      assert.equal(from.calls.length, 3);
      assert.equal(from.calls[2].queryBegin, 1024);
      await turn();
      assert.equal(loader.failed.size, 0);
    });

test(
    'tiles used longest ago are dropped, and never those in view', async () => {
      const from = source(small);
      const loader = new TileLoader({...from, capacity: 4});
      const row = (i) => plan.tilesOf(
          {
            ...everything,
            queryBegin: 256 * i,
            queryEnd: 256 * i + 256,
            keyEnd: 512
          },
          0, small);
      for (const i of [0, 1, 0, 2]) {
        loader.want(row(i));
        await from.answer();
      }
      assert.equal(loader.tiles.size, 4);
      assert.ok(row(0).every((id) => loader.get(id)));
      assert.ok(row(1).every((id) => !loader.get(id)));
      loader.want(plan.tilesOf(everything, 0, small));
      await from.answer();
      assert.equal(loader.tiles.size, 30);
    });

test('another pooling forgets all and asks anew with it', async () => {
  const from = source(small);
  const loader = new TileLoader(from);
  loader.want([{level: 3, row: 0, col: 0}]);
  loader.reset('mean');
  assert.equal(from.calls[0].signal.aborted, true);
  assert.equal(from.calls[1].pooling, 'mean');
  // The late answer of the aborted request is of the pooling before.
  from.open[0].resolve();
  await turn();
  assert.equal(loader.get({level: 3, row: 0, col: 0}), undefined);
  from.open[1].resolve();
  await turn();
  assert.ok(loader.get({level: 3, row: 0, col: 0}).ready[0]);
});

test(
    'a failure is told once, others go on, and it is tried again when asked',
    async () => {
      const from = source(small);
      const loader = new TileLoader(from);
      const failures = [];
      loader.addEventListener(
          'failure', (event) => failures.push(event.detail));
      loader.want([0, 1, 2].map((row) => ({level: 0, row, col: 0})));
      from.open.shift().reject(new Error('the server is away'));
      await turn();
      await from.answer();
      assert.equal(failures.length, 1);
      assert.equal(failures[0].error.message, 'the server is away');
      assert.equal(from.calls.length, 3);
      loader.retry();
      assert.equal(from.calls.length, 4);
      await from.answer();
      assert.ok([0, 1, 2].every((row) => loader.get({level: 0, row, col: 0})));
    });

test('an answer of another size is a failure that names both', async () => {
  let error;
  const loader = new TileLoader({
    ...small,
    pooling: 'max',
    loadStrip: async () => ({rows: 1, cols: 2, data: Float32Array.of(1, 2)})
  });
  loader.addEventListener('failure', (event) => {
    error = event.detail.error;
  });
  loader.want([{level: 3, row: 0, col: 0}]);
  await turn();
  assert.match(error.message, /strip is 1 x 2; expected 188 x 138/);
});

test('progress goes from nothing to all', async () => {
  const from = source(size);
  const loader = new TileLoader(from);
  const shares = [];
  loader.addEventListener(
      'progress', ({detail}) => shares.push(detail.done / detail.total));
  loader.want([{level: 7, row: 0, col: 0}]);
  await from.answer();
  assert.equal(shares[0], 0);
  assert.equal(shares[shares.length - 1], 1);
  assert.deepEqual(shares, [...shares].sort((x, y) => x - y));
  assert.equal(from.calls.length, 16);
  assert.ok(from.calls.every((c) => c.queryEnd - c.queryBegin === 2048));
});
