// @ts-check
// Asks the server for everything that is shown of one setting on one source.
// While an answer is on its way, only the newest wish is kept; an answer that
// is no longer wanted is dropped.

import {computeWeights, contextOf, messageOf} from './answers.js';
import {Questions} from './questions.js';
import {buildCall} from './spec.js';

/** @typedef {import('./state.js').Patch} Patch */
/** @typedef {import('./sources.js').Source} Source */
/** @typedef {import('./answers.js').Result} Result */
/** @typedef {import('./answers.js').Detail} Detail */

// An answer that takes longer is given up for a newer wish.
const PATIENCE_MS = 300;
const KEPT_ANSWERS = 24;

/**
 * Events: `weights` with a Result as soon as it can be drawn, `result` when its
 * detail is there, `failure` with an Error, `busy` with a boolean.
 */
export class Computer extends EventTarget {
  /** @param {import('./api.js').Api} api */
  constructor(api) {
    super();
    this.api = api;
    /** @type {{state: Patch, source: Source} | null} */
    this.wanted = null;
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {Map<string, Promise<any>>} */
    this.kept = new Map();
  }

  /** @param {Patch} state @param {Source} source */
  request(state, source) {
    this.wanted = {state, source};
    const running = this.running;
    if (!running) {
      this.#work();
      return;
    }
    setTimeout(() => {
      if (this.running === running && this.wanted) running.abort();
    }, PATIENCE_MS);
  }

  /** Drops what is on its way and what is waiting. */
  cancel() {
    this.wanted = null;
    this.running?.abort();
  }

  async #work() {
    this.#emit('busy', true);
    while (this.wanted) {
      const {state, source} = this.wanted;
      this.wanted = null;
      this.running = new AbortController();
      const signal = this.running.signal;
      try {
        const result = await computeWeights(this.api, state, source, signal);
        if (signal.aborted) continue;
        this.#emit('weights', result);
        // A newer wish first: this setting's detail would be stale.
        if (this.wanted) continue;
        result.detail = await this.#detail(result, signal);
        if (!signal.aborted) this.#emit('result', result);
      } catch (error) {
        if (!signal.aborted) this.#emit('failure', error);
      }
    }
    this.running = null;
    this.#emit('busy', false);
  }

  /** @param {string} type @param {any} detail */
  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }

  /**
   * An answer that was had before, or a new one.
   * @param {string} key
   * @param {() => Promise<any>} ask
   */
  #once(key, ask) {
    const before = this.kept.get(key);
    if (before) return before;
    const answer = ask();
    this.kept.set(key, answer);
    answer.catch(() => this.kept.delete(key));
    for (const old of this.kept.keys()) {
      if (this.kept.size <= KEPT_ANSWERS) break;
      this.kept.delete(old);
    }
    return answer;
  }

  /** @param {Result} result @param {AbortSignal} signal @returns {Promise<Detail>} */
  async #detail(result, signal) {
    const {state, source, head, batch} = result;
    /** @type {Detail} */
    const detail = {errors: {}};
    const call = buildCall(state, contextOf(source));
    const ask = new Questions(this.api, source, {head, batch}, signal);
    /**
     * @param {string} name
     * @param {object} part
     * @param {() => Promise<object>} question Gives fields of the detail.
     */
    const part = async (name, part, question) => {
      const key = JSON.stringify([source.key, batch, head, name, part]);
      try {
        Object.assign(detail, await this.#once(key, question));
      } catch (error) {
        if (!signal.aborted) detail.errors[name] = messageOf(error);
      }
    };
    const stage = (/** @type {import('./spec.js').UpTo} */ upTo) =>
        buildCall(state, contextOf(source), upTo);
    const parts = [
      part('score', stage('score'), () => ask.logits(stage('score'), 'score')),
      part('output', call, () => ask.output(call)),
      part('sweep', call, () => ask.sweep(call)),
    ];
    // The main answer has no scores of padded keys.
    if (state.softcapOn || Number(state.padding) > 0) {
      parts.push(part('scaled', stage('scale'),
                      () => ask.maskedLogits(stage('scale'), 'scaled')));
    } else {
      detail.scaled = result.raw;
    }
    const sameLogits = state.temperature === 1 && !sparse(state);
    if (sameLogits) {
      detail.masked = result.logits;
    } else {
      parts.push(part('masked', stage('mask'),
                      () => ask.maskedLogits(stage('mask'), 'masked')));
    }
    if (source.queryHeads > 1) {
      parts.push(part('heads', call, () => ask.heads(call)));
    }
    if (state.view === 'gradient') {
      parts.push(part('gradient', {call, loss: state.loss},
                      () => ask.gradient(call, String(state.loss))));
    }
    await Promise.all(parts);
    return detail;
  }
}

/** @param {Patch} state @returns {boolean} */
function sparse(state) {
  return Number(state.topK) > 0 || Number(state.topP) < 1 ||
      Number(state.belowMax) > 0;
}
