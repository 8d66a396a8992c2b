// Numbers and labels as text: exact, round, and as many as fit.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import * as labels from '../../../server/http/explorer/labels.js';
import * as numbers from '../../../server/http/explorer/numbers.js';

const measure = (text, size) => [...text].length * size * 0.6;
const plain = (text) => Number(text.replaceAll('−', '-'));

test('exact text is read back as the same float32, and is the shortest', () => {
  let bits = 1;
  const view = new DataView(new ArrayBuffer(4));
  for (let i = 0; i < 20_000; ++i) {
    bits = (Math.imul(bits, 1664525) + 1013904223) >>> 0;
    view.setUint32(0, bits);
    const value = view.getFloat32(0);
    if (!Number.isFinite(value)) continue;
    const text = numbers.exactText(value, true);
    assert.equal(Math.fround(plain(text)), value);
    const digits = text.replace(/e.*/, '')
                       .replace(/[^0-9]/g, '')
                       .replace(/^0+/, '')
                       .replace(/0+$/, '')
                       .length;
    if (digits < 2) continue;
    const shorter = Math.fround(Number(value.toPrecision(digits - 1)));
    assert.notEqual(shorter, value, text);
  }
});

test('exact text of doubles is all their digits', () => {
  for (const value of [0.1, -1 / 3, 1e-300, 2 ** 53]) {
    assert.equal(plain(numbers.exactText(value)), value);
  }
  assert.equal(numbers.exactText(Math.fround(0.1), true), '0.1');
  assert.equal(numbers.exactText(NaN), 'NaN');
  assert.equal(numbers.exactText(-Infinity), '−∞');
  assert.equal(numbers.exactText(0, true), '0');
});

test('short text has three digits and no needless zeros', () => {
  assert.equal(numbers.shortText(0.123456), '0.123');
  assert.equal(numbers.shortText(-1234.5), '−1230');
  assert.equal(numbers.shortText(2), '2');
  assert.equal(numbers.shortText(0.00001234), '1.23e-5'.replace('-', '−'));
  assert.equal(numbers.shortText(1.5e9), '1.5e9');
  assert.equal(numbers.shortText(0), '0');
});

test('a nice step is 1, 2 or 5 of a power of ten, and the next above', () => {
  for (const [step, nice] of [
           [1, 1], [1.01, 2], [2, 2], [3, 5], [5, 5], [6, 10], [0.3, 0.5],
           [700, 1000]]) {
    assert.ok(Math.abs(numbers.niceStep(step) / nice - 1) < 1e-9, `${step}`);
  }
});

test('ticks are round, inside, evenly apart, and not too many', () => {
  for (const [low, high] of [[0, 1], [-3.3, 7.1], [0.01, 0.012], [0, 3e6]]) {
    for (const most of [3, 5, 8]) {
      const ticks = numbers.valueTicks(low, high, most);
      assert.ok(ticks.length >= 1 && ticks.length <= most);
      const step = ticks[1] - ticks[0];
      ticks.forEach((tick, i) => {
        assert.ok(tick >= low - 1e-9 && tick <= high + 1e-9);
        if (i) assert.ok(Math.abs(tick - ticks[i - 1] - step) < 1e-6 * step);
      });
    }
  }
  assert.deepEqual(numbers.valueTicks(0, 0.5, 6), [0, 0.1, 0.2, 0.3, 0.4, 0.5]);
});

test('ticks of a logarithmic axis are in each power of ten', () => {
  assert.deepEqual(numbers.logTicks(0.1, 10, 8), [0.1, 0.2, 0.5, 1, 2, 5, 10]);
  assert.deepEqual(numbers.logTicks(0.1, 10, 5), [0.1, 0.3, 1, 3, 10]);
  assert.deepEqual(
      numbers.logTicks(1, 1e6, 7), [1, 10, 100, 1e3, 1e4, 1e5, 1e6]);
  assert.ok(numbers.logTicks(1e-6, 1e6, 5).length <= 5);
});

test('indices are multiples of the step', () => {
  assert.deepEqual(numbers.indexTicks(3, 21, 5), [5, 10, 15, 20]);
  assert.deepEqual(numbers.indexTicks(0, 1, 5), [0]);
});

test('a range is said with its last index', () => {
  assert.equal(numbers.rangeText('row', 128, 256), 'rows 128–255');
  assert.equal(numbers.rangeText('key', 7, 8), 'key 7');
});

test('labels beside rows and below columns do not meet', () => {
  const names = Array.from({length: 300}, (_, i) => `token ${i * i}`);
  for (const count of [1, 5, 40, 300]) {
    for (const cell of [0.5, 1.7, 4, 9, 14, 30, 56]) {
      for (const across of [false, true]) {
        for (const given of [names, undefined]) {
          const axis =
              labels.axisLabels({count, cell, names: given, measure, across});
          const sizeOf = (label) =>
              (across && !axis.up ? measure(label.text, axis.size) :
                                    axis.size * 1.2);
          assert.ok(axis.labels.length >= 1);
          axis.labels.forEach((label, i) => {
            if (i === 0) return;
            const before = axis.labels[i - 1];
            const room = label.offset - before.offset;
            assert.ok(
                room >= (sizeOf(label) + sizeOf(before)) / 2 - 1e-9,
                `${count} ${cell} ${across} ${label.text}`);
          });
        }
      }
    }
  }
});

test('each label is at the middle of its own cell', () => {
  const axis = labels.axisLabels({
    count: 4,
    cell: 20,
    names: ['a', 'b', 'c', 'd'],
    measure,
    across: false
  });
  assert.deepEqual(
      axis.labels.map(({text, offset}) => [text, offset]),
      [['a', 10], ['b', 30], ['c', 50], ['d', 70]]);
});

test(
    'a text that is cut is as long as fits, and never half a character', () => {
      const text = 'ab😀'.repeat(20);
      for (let width = 12; width < 400; width += 7) {
        const cut = labels.fitText(text, width, 10, measure);
        assert.ok(measure(cut, 10) <= width);
        assert.ok(cut.isWellFormed?.() ?? true);
        if (cut === text) continue;
        assert.ok(text.startsWith(cut.slice(0, -1)) && cut.endsWith('…'));
        assert.ok(measure(cut, 10) + 6 > width);
      }
    });

test('white space is seen', () => {
  assert.equal(labels.visibleText('  '), '␣␣');
  assert.equal(labels.visibleText(''), '␣');
  assert.equal(labels.visibleText('a\n'), 'a⏎');
});
