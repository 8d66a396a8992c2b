// @ts-check
// The server's JSON gateway: one method for each call, errors that name the
// field, a bearer token if the server asks for one, and a watch on whether the
// server is there.

const TOKEN_KEY = 'attn-token';
const WATCH_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000];

/** A call that the server refused, or that did not reach it. */
export class ApiError extends Error {
  /**
   * @param {number} status Of HTTP; 0 if the server was not reached.
   * @param {{code?: number, message?: string, details?: any[]}} body
   */
  constructor(status, body) {
    super(body.message || `the server answered ${status}`);
    this.status = status;
    this.code = body.code ?? 0;
    const violations = (body.details ?? []).flatMap(
        (detail) => detail.fieldViolations ?? []);
    /** The field at fault, or "". */
    this.field = String(violations[0]?.field ?? '');
    const reasons = (body.details ?? []).flatMap(
        (detail) => detail.reason ?? []);
    /** Of google.rpc.ErrorInfo, as SESSION_EXPIRED, or "". */
    this.reason = String(reasons[0] ?? '');
  }
}

/**
 * Events: `connection` with {there: boolean, message: string}, and `token` when
 * the server wants one.
 */
export class Api extends EventTarget {
  constructor() {
    super();
    this.there = true;
    this.failures = 0;
    this.timer = 0;
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.look();
    });
    this.#plan(WATCH_MS);
  }

  /** @param {object} request @param {AbortSignal} [signal] */
  inspect(request, signal) {
    return this.send('POST', '/v1/inspect', request, signal);
  }
  /** @param {object} request @param {AbortSignal} [signal] */
  attend(request, signal) {
    return this.send('POST', '/v1/attend', request, signal);
  }
  /** @param {object} request @param {AbortSignal} [signal] */
  backward(request, signal) {
    return this.send('POST', '/v1/attend_backward', request, signal);
  }
  /** @param {object} request @param {AbortSignal} [signal] */
  plan(request, signal) {
    return this.send('POST', '/v1/plan', request, signal);
  }
  serverInfo() { return this.send('GET', '/v1/server_info'); }
  storyInfo() { return this.send('GET', '/explorer/story'); }
  /** @param {string} text @param {AbortSignal} [signal] */
  story(text, signal) {
    return this.send('POST', '/explorer/story', {text}, signal);
  }
  /** @param {string} name */
  layerInfo(name) {
    return this.send('GET', `/v1/layers/${name}?info_only=true`);
  }
  /** @param {string} [token] Of the page before. */
  listLayers(token = '') {
    const query = new URLSearchParams({page_size: '1000', page_token: token});
    return this.send('GET', `/v1/layers?${query}`);
  }
  /** @param {string} name @param {object} body @param {AbortSignal} [signal] */
  putLayer(name, body, signal) {
    return this.send('PUT', `/v1/layers/${name}`, body, signal);
  }
  /** @param {string} name */
  deleteLayer(name) { return this.send('DELETE', `/v1/layers/${name}`); }

  /** @param {object} request */
  openSession(request) { return this.send('POST', '/v1/sessions', request); }
  /** @param {object} request */
  step(request) { return this.send('POST', '/v1/step', request); }
  /** @param {object} request */
  fork(request) { return this.send('POST', '/v1/fork', request); }
  /** @param {object} request */
  rollback(request) { return this.send('POST', '/v1/rollback', request); }
  /** @param {string} id */
  session(id) { return this.send('GET', `/v1/sessions/${id}`); }
  /** @param {string} id */
  closeSession(id) { return this.send('DELETE', `/v1/sessions/${id}`); }

  /** Used from the next call on; "" forgets it. @param {string} token */
  setToken(token) {
    if (token) sessionStorage.setItem(TOKEN_KEY, token);
    else sessionStorage.removeItem(TOKEN_KEY);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async send(method, path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = {};
    const token = sessionStorage.getItem(TOKEN_KEY);
    if (token) headers['Authorization'] = `Bearer ${token}`;
    if (body) headers['Content-Type'] = 'application/json';
    let response;
    try {
      response = await fetch(path, {
        method,
        headers,
        body: body && JSON.stringify(body),
        signal,
        cache: 'no-store',
        // What a page keeps on the server is deleted as the page is left.
        keepalive: method === 'DELETE',
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      this.#lost('The server cannot be reached.');
      throw new ApiError(0, {message: 'the server cannot be reached'});
    }
    const answer = await answerOf(response, signal);
    if (response.ok) {
      this.#found();
      return answer;
    }
    if (response.status === 401) this.dispatchEvent(new Event('token'));
    const error = new ApiError(response.status, answer);
    // A session that is busy is no server that is.
    if (response.status === 503 && error.reason !== 'SESSION_BUSY') {
      this.#lost('The server is not ready.');
    }
    throw error;
  }

  /** Asks whether the server is ready, now. */
  async look() {
    clearTimeout(this.timer);
    try {
      const response = await fetch('/readyz', {cache: 'no-store'});
      if (response.ok) this.#found();
      else this.#lost('The server is not ready.');
    } catch {
      this.#lost('The server cannot be reached.');
    }
    this.#plan(this.there ? WATCH_MS : this.#delay());
  }

  #delay() {
    return RETRY_MS[Math.min(this.failures, RETRY_MS.length) - 1] ?? WATCH_MS;
  }

  /** @param {number} delay In milliseconds. */
  #plan(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      // A page that nobody looks at does not ask; it does when it is seen again.
      if (document.hidden) this.#plan(WATCH_MS);
      else this.look();
    }, delay);
  }

  #found() {
    this.failures = 0;
    if (this.there) return;
    this.there = true;
    this.dispatchEvent(new CustomEvent(
        'connection', {detail: {there: true, message: 'Connected again.'}}));
    this.#plan(WATCH_MS);
  }

  /** @param {string} message */
  #lost(message) {
    this.failures += 1;
    this.#plan(this.#delay());
    if (!this.there) return;
    this.there = false;
    this.dispatchEvent(
        new CustomEvent('connection', {detail: {there: false, message}}));
  }
}

/**
 * @param {Response} response
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function answerOf(response, signal) {
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (!response.ok) return {};
    throw new ApiError(
        response.status, {message: 'the server\'s answer is not JSON'});
  }
}
