// Colour maps are even, ordered by lightness, and told apart by all.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import * as colours from '../../../server/http/explorer/colours.js';

const {colourMap, colourDistance, toOklab} = colours;
const steps = 256;

function path(name, dark) {
  const map = colourMap(name, dark);
  return Array.from({length: steps}, (_, i) => map(i / (steps - 1)));
}

const lightness = (colour) => toOklab(colour).lightness;

test('weights grow lighter throughout', () => {
  const values = path('weights').map(lightness);
  for (let i = 1; i < steps; ++i) {
    // Rounding to 8 bits may hold it still, and no more.
    assert.ok(values[i] > values[i - 1] - 0.002, `at ${i}`);
    if (i >= 4) assert.ok(values[i] > values[i - 4], `at ${i}`);
  }
  assert.ok(values[steps - 1] - values[0] > 0.6);
});

for (const dark of [false, true]) {
  test(`logits are monotone in each arm, ${dark ? 'dark' : 'light'}`, () => {
    const values = path('logits', dark).map(lightness);
    const sign = dark ? 1 : -1;
    for (let i = steps / 2 + 4; i < steps; ++i) {
      assert.ok(sign * (values[i] - values[i - 4]) > 0, `right at ${i}`);
      const j = steps - 1 - i;
      assert.ok(sign * (values[j] - values[j + 4]) > 0, `left at ${j}`);
    }
  });

  test(`both signs of a logit are equally light, ${dark}`, () => {
    const values = path('logits', dark).map(lightness);
    for (let i = 0; i < steps / 2; ++i) {
      assert.ok(Math.abs(values[i] - values[steps - 1 - i]) < 0.006);
    }
  });

  test(`the middle of logits has no hue, ${dark}`, () => {
    const {a, b} = toOklab(colourMap('logits', dark)(0.5));
    assert.ok(Math.hypot(a, b) < 0.01);
  });
}

test('equal steps of weights look equally far', () => {
  const labs = path('weights').map(toOklab);
  const parts = Array.from(
      {length: 15}, (_, i) => colourDistance(labs[17 * i], labs[17 * i + 17]));
  const mean = parts.reduce((sum, part) => sum + part, 0) / parts.length;
  // A chord over a bend is shorter than the way around it.
  for (const part of parts) assert.ok(Math.abs(part / mean - 1) < 0.15);
});

// Machado, Oliveira and Fernandes 2009, severity 1, in linear sRGB.
const blindness = {
  protanopia: [
    [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998]
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881]
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039]
  ],
};

function simulated(colour, matrix) {
  const linear = colour.map(
      (x) =>
          (x / 255 <= 0.04045 ? x / 255 / 12.92 :
                                ((x / 255 + 0.055) / 1.055) ** 2.4));
  return matrix.map((row) => {
    const y = Math.min(
        Math.max(
            row[0] * linear[0] + row[1] * linear[1] + row[2] * linear[2], 0),
        1);
    return Math.round(
        255 * (y <= 0.0031308 ? 12.92 * y : 1.055 * y ** (1 / 2.4) - 0.055));
  });
}

for (const [name, matrix] of Object.entries(blindness)) {
  for (const [map, dark] of [
           ['weights', false], ['logits', false], ['logits', true]]) {
    test(`nine colours of ${map} are told apart with ${name}, ${dark}`, () => {
      const labs = Array.from(
          {length: 9},
          (_, i) => toOklab(simulated(colourMap(map, dark)(i / 8), matrix)));
      for (let i = 0; i < 9; ++i) {
        for (let j = 0; j < i; ++j) {
          assert.ok(
              colourDistance(labs[i], labs[j]) > 0.04,
              `${i} and ${j}: ` + colourDistance(labs[i], labs[j]));
        }
      }
    });
  }
}

test('no value has the colour of what is masked or not finite', () => {
  for (const [theme, dark] of [['light', false], ['dark', true]]) {
    const {ground, stripe, notFinite} = colours.MASKED[theme];
    for (const map of ['weights', 'logits']) {
      for (const colour of path(map, dark)) {
        for (const other of [ground, stripe, notFinite]) {
          const far = colourDistance(toOklab(colour), toOklab(other));
          assert.ok(far > 0.02, `${map} ${theme} ${colour} ${other}`);
        }
      }
    }
  }
});

test('Oklab has the values that its author gives', () => {
  // Ottosson 2020: white is (1, 0, 0), black (0, 0, 0).
  const white = toOklab([255, 255, 255]);
  assert.ok(Math.abs(white.lightness - 1) < 1e-4);
  assert.ok(Math.hypot(white.a, white.b) < 1e-4);
  assert.equal(toOklab([0, 0, 0]).lightness, 0);
  for (let i = 0; i < 256; i += 5) {
    const colour = [i, (i * 7) % 256, (i * 13) % 256];
    assert.deepEqual(colours.fromOklab(toOklab(colour)), colour);
  }
});

test('text on a colour has the contrast of WCAG AA', () => {
  for (const map of ['weights', 'logits']) {
    for (const dark of [false, true]) {
      for (const colour of path(map, dark)) {
        const ink = colours.inkOn(colour);
        assert.ok(colours.contrast(colour, ink) >= 4.5, `${map} ${colour}`);
      }
    }
  }
  assert.equal(colours.contrast([0, 0, 0], [255, 255, 255]), 21);
});

test('ranges hold the values, and logits are about 0', () => {
  assert.deepEqual(colours.rangeOf('weights', 0.2, 0.7), [0, 0.7]);
  assert.deepEqual(colours.rangeOf('weights', -0.2, 0.7), [-0.2, 0.7]);
  assert.deepEqual(colours.rangeOf('weights', 0, 0), [0, 1]);
  assert.deepEqual(colours.rangeOf('logits', -3, 2), [-3, 3]);
  assert.deepEqual(colours.rangeOf('logits', 0, 0), [-1, 1]);
});

test('pixels are the colours of the values, whatever their range', () => {
  const data = [-1e308, 0, 1e308, NaN, Infinity, 5e307];
  const pixels = new Uint8ClampedArray(4 * data.length);
  const map = colourMap('logits');
  colours.paintPixels({
    data,
    colours: map,
    range: [-1e308, 1e308],
    notFinite: [1, 2, 3],
    pixels
  });
  const shares = [0, 0.5, 1, null, null, 0.75];
  shares.forEach((share, i) => {
    const colour = share === null ? [1, 2, 3] : map(share);
    assert.deepEqual([...pixels.subarray(4 * i, 4 * i + 4)], [...colour, 255]);
  });
});

test('an unknown map is named', () => {
  assert.throws(() => colourMap('rainbow'), /'rainbow'; expected 'weights'/);
});
