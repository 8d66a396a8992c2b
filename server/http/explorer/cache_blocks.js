// @ts-check
// A session's cache in blocks of tokens: which there are, which a fork has too,
// which were let go.

import {el, fill} from './dom.js';

/** Tokens of a block, as the server has them. */
export const BLOCK_TOKENS = 64;

/**
 * @typedef {'own' | 'shared' | 'released'} BlockKind
 * @typedef {{begin: number, end: number, kind: BlockKind}} CacheBlock
 */

/** @type {Record<BlockKind, string>} */
const KIND_WORDS = {own: 'own', shared: 'shared', released: 'let go'};

/**
 * The server tells how many bytes a session has, and how many of them alone;
 * blocks are of one size, those that are shared are the first, and those that
 * were let go lie behind the `keep` first tokens.
 * @param {{length: number, bytes: number, ownBytes: number,
 *     blockBytes: number, keep: number}} cache
 * @returns {CacheBlock[]}
 */
export function cacheBlocks({length, bytes, ownBytes, blockBytes, keep}) {
  const count = Math.ceil(length / BLOCK_TOKENS);
  const held = blockBytes > 0 ? Math.round(bytes / blockBytes) : count;
  let shared =
      blockBytes > 0 ? Math.round((bytes - ownBytes) / blockBytes) : 0;
  const gone = Math.max(0, count - held);
  const firstGone = Math.ceil(keep / BLOCK_TOKENS);
  return Array.from({length: count}, (_, block) => {
    const begin = block * BLOCK_TOKENS;
    const end = Math.min(length, begin + BLOCK_TOKENS);
    if (block >= firstGone && block < firstGone + gone) {
      return {begin, end, kind: 'released'};
    }
    return {begin, end, kind: shared-- > 0 ? 'shared' : 'own'};
  });
}

/** @param {HTMLElement} list @param {CacheBlock[]} blocks */
export function drawBlocks(list, blocks) {
  fill(list, ...blocks.map(({begin, end, kind}) => {
    const inside = el('i');
    inside.style.width = `${100 * (end - begin) / BLOCK_TOKENS}%`;
    return el('li', {class: `block ${kind}`, 'data-kind': kind,
                     'data-tokens': end - begin},
        el('span', {class: 'block-fill', 'aria-hidden': 'true'}, inside),
        el('span', {text: end - begin === 1 ? `token ${begin}`
                                            : `tokens ${begin} to ${end - 1}`}),
        el('span', {class: 'block-kind', text: `${KIND_WORDS[kind]}, ` +
            `${end - begin} of ${BLOCK_TOKENS}`}));
  }));
}
