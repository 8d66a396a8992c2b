// Attention by its formula, in double precision, and the tensors of the wire.

// softmax(scale * <q, k>) v of one head, causal if asked; rows of numbers.
export function attention(q, k, v, { causal = false } = {}) {
  const scale = 1 / Math.sqrt(q[0].length);
  return q.map((row, i) => {
    const weights = k.map((key, j) => {
      const score = key.reduce((sum, x, d) => sum + x * row[d], 0);
      return causal && j > i ? 0 : Math.exp(scale * score);
    });
    const sum = weights.reduce((a, b) => a + b, 0);
    return v[0].map((_, d) =>
      v.reduce((out, value, j) => out + (weights[j] / sum) * value[d], 0),
    );
  });
}

// Rows of numbers that follow from the seed, between -1 and 1.
export function draw(seed, rows, width) {
  return Array.from({ length: rows }, (_, i) =>
    Array.from({ length: width }, (_, d) => Math.sin(seed + 12.9898 * i + 78.233 * d)),
  );
}

// One head as little-endian bytes.
export function bytesOf(rows) {
  return Buffer.from(Float32Array.from(rows.flat()).buffer);
}

export function tensorOf(rows) {
  const shape = [1, 1, rows.length, rows[0].length];
  return { dtype: "DATA_TYPE_F32", shape, data: bytesOf(rows) };
}

export function numbersOf(data) {
  return [...new Float32Array(Uint8Array.from(data).buffer)];
}

// Throws unless all are within a few float32 roundings.
export function expectClose(found, expected) {
  const wanted = expected.flat();
  if (found.length !== wanted.length) {
    throw new Error(`${found.length} numbers, expected ${wanted.length}`);
  }
  found.forEach((x, i) => {
    if (!(Math.abs(x - wanted[i]) <= 2e-6 * (1 + Math.abs(wanted[i])))) {
      throw new Error(`element ${i}: ${x}, expected ${wanted[i]}`);
    }
  });
}
