// Tensors against bytes written by hand from IEEE 754's layout.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import * as tensors from '../../../server/http/explorer/tensors.js';

const {at, decodeTensor, encodeTensor, matrixAt} = tensors;

/** @param {number[]} bytes */
const base64 = (bytes) => Buffer.from(bytes).toString('base64');

test('each element type is read from little-endian bytes', () => {
  const cases = [
    ['DATA_TYPE_F32', [0, 0, 0xc0, 0x3f], 1.5],
    ['DATA_TYPE_F64', [0, 0, 0, 0, 0, 0, 0x04, 0xc0], -2.5],
    ['DATA_TYPE_F16', [0x00, 0xc1], -2.5],
    ['DATA_TYPE_BF16', [0x20, 0x40], 2.5],
    ['DATA_TYPE_BOOL', [1], 1],
    ['DATA_TYPE_I8', [0xff], -1],
    ['DATA_TYPE_I32', [0xfe, 0xff, 0xff, 0xff], -2],
    ['DATA_TYPE_I64', [0, 0, 0, 0, 1, 0, 0, 0], 2 ** 32],
  ];
  for (const [dtype, bytes, value] of cases) {
    const tensor = decodeTensor({dtype, shape: ['1'], data: base64(bytes)});
    assert.equal(Number(tensor.data[0]), value, dtype);
    const back = encodeTensor(tensor);
    assert.deepEqual(back, {dtype, shape: ['1'], data: base64(bytes)}, dtype);
  }
});

test('every binary16 is widened by the formula of the standard', () => {
  for (let bits = 0; bits < 65536; ++bits) {
    const sign = bits >> 15 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = (bits & 1023) / 1024;
    const expected = exponent === 31 ? (fraction ? NaN : sign * Infinity) :
        exponent === 0               ? sign * fraction * 2 ** -14 :
                         sign * (1 + fraction) * 2 ** (exponent - 15);
    const widened = tensors.halfToFloat(bits);
    assert.ok(Object.is(widened, expected), `${bits}: ${widened}`);
    if (Number.isNaN(expected)) continue;
    assert.equal(tensors.floatToHalf(expected), bits);
  }
});

test(
    'a number between two binary16 goes to the nearest, the even of two',
    () => {
      for (let bits = 0; bits < 0x7bff; ++bits) {
        const low = tensors.halfToFloat(bits);
        const high = tensors.halfToFloat(bits + 1);
        const middle = (low + high) / 2;
        const even = bits % 2 === 0 ? bits : bits + 1;
        assert.equal(tensors.floatToHalf(middle), even);
        assert.equal(tensors.floatToHalf(-middle), even | 0x8000);
        const nudge = (high - low) / 1024;
        assert.equal(tensors.floatToHalf(middle - nudge), bits);
        assert.equal(tensors.floatToHalf(middle + nudge), bits + 1);
      }
      assert.equal(tensors.floatToHalf(65519.9), 0x7bff);
      assert.equal(tensors.floatToHalf(65520), 0x7c00);
    });

test('bfloat16 is the upper half of binary32, rounded to the even', () => {
  for (let bits = 0; bits < 65536; bits += 7) {
    const value = tensors.bfloatToFloat(bits);
    const whole = new DataView(new ArrayBuffer(4));
    whole.setUint32(0, bits * 65536);
    assert.ok(Object.is(value, whole.getFloat32(0)));
    if (!Number.isNaN(value)) assert.equal(tensors.floatToBfloat(value), bits);
  }
  const one = 0x3f80;
  // Steps above 1 are 2^-7.
  assert.equal(tensors.floatToBfloat(1 + 2 ** -8), one);
  assert.equal(tensors.floatToBfloat(1 + 3 * 2 ** -8), one + 2);
  assert.equal(tensors.floatToBfloat(1 + 2 ** -8 + 2 ** -20), one + 1);
  assert.equal(tensors.floatToBfloat(Math.fround(3.4e38)), 0x7f80);
});

test(
    'int64 is numbers where they are exact and bigints where they are not',
    () => {
      const limit = 2n ** 53n - 1n;
      const json = (x) =>
          encodeTensor({dtype: 'i64', shape: [1], data: BigInt64Array.of(x)});
      assert.deepEqual(
          decodeTensor(json(-limit)).data, Float64Array.of(Number(-limit)));
      assert.deepEqual(
          decodeTensor(json(limit + 1n)).data, BigInt64Array.of(limit + 1n));
    });

test('what protobuf leaves out is empty', () => {
  const scalar = {dtype: 'DATA_TYPE_I8', data: base64([7])};
  assert.deepEqual(decodeTensor(scalar).shape, []);
  assert.equal(at(decodeTensor(scalar)), 7);
  const none = decodeTensor({dtype: 'DATA_TYPE_F32', shape: ['0', '4']});
  assert.equal(none.data.length, 0);
});

test('an element and a matrix are found in row-major order', () => {
  const shape = [2, 3, 4, 5];
  const data = Float32Array.from({length: 120}, (_, i) => i);
  const tensor = {dtype: 'f32', shape, data};
  assert.equal(at(tensor, 1, 2, 3, 4), 119);
  assert.equal(at(tensor, 1, 0, 2, 3), 60 + 10 + 3);
  const matrix = matrixAt(tensor, 1, 2);
  assert.equal(matrix.rows, 4);
  assert.equal(matrix.cols, 5);
  assert.equal(matrix.data[0], at(tensor, 1, 2, 0, 0));
  assert.equal(matrix.data[19], 119);
  assert.throws(() => at(tensor, 2, 0, 0, 0), /index is \[2,0,0,0\].*2,3,4,5/);
  assert.throws(() => matrixAt(tensor, 0, 3), /index is/);
});

test('errors name the field, what came and what was expected', () => {
  assert.throws(
      () => decodeTensor(
          {dtype: 'DATA_TYPE_F32', shape: ['2'], data: base64([0, 0, 0, 0])}),
      /data has 4 bytes; expected 8/);
  assert.throws(
      () => decodeTensor({dtype: 'DATA_TYPE_U7', shape: []}),
      /dtype is 'DATA_TYPE_U7'; expected one of f32/);
  assert.throws(
      () => decodeTensor({dtype: 'DATA_TYPE_F32', shape: ['-1']}),
      /shape is \[-1\]/);
  assert.throws(
      () => encodeTensor({shape: [3], data: [1, 2]}),
      /data has 2 elements; expected 3/);
});

test('base64 of many bytes is as the platform writes it', () => {
  const bytes = Uint8Array.from({length: 100_003}, (_, i) => (i * 31) & 255);
  const text = Buffer.from(bytes).toString('base64');
  assert.equal(tensors.toBase64(bytes), text);
  assert.deepEqual(tensors.fromBase64(text), bytes);
  const url = Buffer.from(bytes).toString('base64url');
  assert.deepEqual(tensors.fromBase64(url), bytes);
});
