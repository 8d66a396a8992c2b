// @ts-check
// The source that a state names. Sources that are still being made are given
// up when another is asked for.

import {exampleSource, LARGEST_WHOLE, readFile, sourceOf, StorySources,
  toySource} from './sources.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./sources.js').Source} Source */

export class SourceLoader {
  /** @param {import('./api.js').Api} api */
  constructor(api) {
    this.api = api;
    this.stories = new StorySources(api);
    /** @type {Awaited<ReturnType<typeof readFile>> | null} */
    this.file = null;
    this.fileCount = 0;
    /** @type {Source | null} What lies on the server. */
    this.kept = null;
    this.keptKey = '';
    /**
     * At hand, as a page that is left cannot wait for an import.
     * @type {typeof import('./long_source.js').forget | null}
     */
    this.forget = null;
    this.running = new AbortController();
    addEventListener('pagehide', () => this.#forget());
  }

  /** @param {File} file */
  async open(file) {
    this.file = await readFile(file);
    this.fileCount += 1;
  }

  /**
   * @param {Patch} state
   * @param {(share: number) => void} progress
   * @returns {Promise<Source | null>} Null: there is none yet.
   */
  async load(state, progress) {
    const key = this.#keyOf(state);
    if (this.kept && key === this.keptKey) return this.kept;
    this.running.abort();
    this.running = new AbortController();
    const {signal} = this.running;
    switch (state.source) {
      case 'example':
        return exampleSource();
      case 'toy':
        return toySource(state);
      case 'file':
        return this.#fromFile(state, key, progress, signal);
      case 'long': {
        const {longSource} = await import('./long_source.js');
        return this.#keep(key, await longSource(
            this.api, Number(state.longTokens), progress, signal));
      }
      default:
        return this.stories.load(state, signal);
    }
  }

  /** After the server was away: it may have lost what it kept. */
  again() {
    this.kept = null;
  }

  /** What a source on the server depends on. @param {Patch} state */
  #keyOf({source, longTokens, batch, head}) {
    return source === 'long' ? `long ${longTokens}`
                             : `${source} ${this.fileCount} ${batch} ${head}`;
  }

  /**
   * @param {Patch} state
   * @param {string} key
   * @param {(share: number) => void} progress
   * @param {AbortSignal} signal
   */
  async #fromFile(state, key, progress, signal) {
    if (!this.file) return null;
    const {tensors, extras, name} = this.file;
    const source = sourceOf('file', `file ${this.fileCount} ${name}`, tensors,
                            {extras});
    if (Math.max(source.queries, source.keys) <= LARGEST_WHOLE) return source;
    const which = {
      batch: Math.min(Number(state.batch), source.batches - 1),
      head: Math.min(Number(state.head), source.queryHeads - 1),
    };
    const {keptFile, forget} = await import('./long_source.js');
    this.forget = forget;
    return this.#keep(key, await keptFile(
        this.api, source, tensors, which, progress, signal));
  }

  /** @param {string} key @param {Source} source */
  #keep(key, source) {
    this.#forget();
    this.kept = source;
    this.keptKey = key;
    return source;
  }

  /** What is kept of a file is of no use to anyone else. */
  #forget() {
    const kept = this.kept;
    this.kept = null;
    if (kept?.kind !== 'file') return;
    this.forget?.(this.api, kept);
  }
}
