// A decode's tensors row by row, its bytes, and the blocks of a cache.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {BLOCK_TOKENS, cacheBlocks} from '../../../server/http/explorer/cache_blocks.js';
import * as decode from '../../../server/http/explorer/decode_call.js';
import {sourceOf} from '../../../server/http/explorer/sources.js';
import {defaults} from '../../../server/http/explorer/state.js';
import {at, decodeTensor} from '../../../server/http/explorer/tensors.js';

// Each element says where it is.
const placed = (b, h, s, d) => 1000 * b + 100 * h + 10 * s + d + 0.5;

function tensor(batches, heads, rows, width) {
  const data = [];
  for (let b = 0; b < batches; ++b)
    for (let h = 0; h < heads; ++h)
      for (let s = 0; s < rows; ++s)
        for (let d = 0; d < width; ++d) data.push(placed(b, h, s, d));
  return {dtype: 'f64', shape: [batches, heads, rows, width],
          data: Float64Array.from(data)};
}

const [batches, heads, kvHeads, tokens] = [2, 4, 2, 5];
const source = sourceOf('file', 'test', {
  q: tensor(batches, heads, tokens, 3),
  k: tensor(batches, kvHeads, tokens, 3),
  v: tensor(batches, kvHeads, tokens, 2),
});
const resultOf = (state = {}, more = {}) => ({
  state: {...defaults(), ...state}, source: {...source, ...more}, batch: 1, head: 0});

test('a token is its row of every head of the batch entry, as f32', () => {
  const call = decode.decodeCallOf(resultOf());
  for (let row = 0; row < tokens; ++row) {
    const {q: [q], k: [k], v: [v]} = decode.tokenOf(call, row);
    for (const [sent, ofHeads, width] of [[q, heads, 3], [k, kvHeads, 3], [v, kvHeads, 2]]) {
      const read = decodeTensor(sent);
      assert.equal(read.dtype, 'f32');
      assert.deepEqual(read.shape, [1, ofHeads, 1, width]);
      for (let head = 0; head < ofHeads; ++head) {
        for (let i = 0; i < width; ++i) {
          assert.equal(at(read, 0, head, 0, i), placed(1, head, row, i));
        }
      }
    }
  }
});

test('a step sends one token however many there are; a call sends all of them', () => {
  const call = decode.decodeCallOf(resultOf());
  for (let row = 0; row < tokens; ++row) {
    const sent = decode.bytesOfRow(call, row);
    const {q, k, v} = decode.tokenOf(call, row);
    const payload = [q, k, v].map(([part]) => Buffer.from(part.data, 'base64').length);
    assert.equal(sent.step, payload[0] + payload[1] + payload[2]);
    assert.equal(sent.call, payload[0] + (row + 1) * (payload[1] + payload[2]));
  }
});

test('a decode is causal whatever the mask says, and knows no padding', () => {
  const plain = decode.decodeCallOf(resultOf({causal: true}));
  assert.deepEqual(plain.spec.masks, [{causal: {alignment: 'ALIGNMENT_BOTTOM_RIGHT'}}]);
  for (const change of [{causal: false}, {padding: 2}, {alignment: 'top_left'}]) {
    assert.equal(decode.decodeCallOf(resultOf(change)).key, plain.key);
  }
  for (const change of [{temperature: 2}, {rotary: false}, {windowOn: true}]) {
    assert.notEqual(decode.decodeCallOf(resultOf(change)).key, plain.key);
  }
  // Another head is of the same session, another batch entry is not.
  assert.equal(decode.decodeCallOf({...resultOf(), head: 2}).key, plain.key);
  assert.notEqual(decode.decodeCallOf({...resultOf(), batch: 0}).key, plain.key);
});

test('what has no key for each query is no decode', () => {
  assert.equal(decode.undecodable(resultOf()), '');
  assert.match(decode.undecodable(resultOf({}, {queries: 4})), /4 queries and 5 keys/);
  assert.notEqual(decode.undecodable(resultOf({}, {queries: 0, keys: 0})), '');
});

test('outputs are compared to the bit', () => {
  const whole = tensor(1, 2, 3, 2);
  const row = () => ({shape: [1, 2, 1, 2],
                      data: Float32Array.of(placed(0, 0, 1, 0), placed(0, 0, 1, 1),
                                            placed(0, 1, 1, 0), placed(0, 1, 1, 1))});
  assert.deepEqual(decode.difference(row(), whole, 1),
                   {equal: 4, count: 4, largest: 0, agrees: true});
  const near = row();
  near.data[2] += 2 ** -17;
  assert.deepEqual(decode.difference(near, whole, 1),
                   {equal: 3, count: 4, largest: 2 ** -17, agrees: true});
  const far = row();
  far.data[0] -= 0.5;
  assert.deepEqual(decode.difference(far, whole, 1),
                   {equal: 3, count: 4, largest: 0.5, agrees: false});
  const nan = row();
  nan.data[1] = NaN;
  assert.deepEqual(decode.difference(nan, whole, 1),
                   {equal: 3, count: 4, largest: Infinity, agrees: false});
  const all = decode.difference(
      {shape: [1, 1, 1, 1], data: Float32Array.of(NaN)},
      {shape: [1, 1, 1, 1], data: Float32Array.of(NaN)}, 0);
  assert.deepEqual(all, {equal: 1, count: 1, largest: 0, agrees: true});
});

const blockBytes = 8192;
const blocks = (length, held, own, keep = 0) => cacheBlocks({
  length, bytes: held * blockBytes, ownBytes: own * blockBytes, blockBytes, keep});

test('blocks have every token once', () => {
  for (const length of [0, 1, 63, 64, 65, 128, 1000]) {
    const count = Math.ceil(length / BLOCK_TOKENS);
    const all = blocks(length, count, count);
    assert.equal(all.length, count);
    let next = 0;
    for (const {begin, end, kind} of all) {
      assert.equal(begin, next);
      assert.ok(end - begin >= 1 && end - begin <= BLOCK_TOKENS);
      assert.equal(kind, 'own');
      next = end;
    }
    assert.equal(next, length);
  }
});

test('what a fork shares is the beginning', () => {
  for (let own = 0; own <= 4; ++own) {
    const kinds = blocks(200, 4, own).map(({kind}) => kind);
    assert.deepEqual(kinds, [...Array(4 - own).fill('shared'), ...Array(own).fill('own')]);
  }
});

test('what a window let go lies behind what it keeps', () => {
  const kinds = (keep) => blocks(300, 3, 2, keep).map(({kind}) => kind);
  assert.deepEqual(kinds(0), ['released', 'released', 'shared', 'own', 'own']);
  assert.deepEqual(kinds(1), ['shared', 'released', 'released', 'own', 'own']);
  assert.deepEqual(kinds(64), kinds(1));
  assert.deepEqual(kinds(65), ['shared', 'own', 'released', 'released', 'own']);
});
