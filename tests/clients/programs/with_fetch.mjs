// fetch of Node: every way to store and read a value, whole and cut off. Says what did not hold.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { writeFile } from 'node:fs/promises';

const at = process.argv[2];
const value = randomBytes(8 << 20);
const sha = (bytes) => createHash('sha256').update(bytes).digest('hex');
const send = (method, key, body, headers = {}) =>
  fetch(`${at}/${key}`, { method, body, headers, ...(body instanceof ReadableStream && { duplex: 'half' }) });
const status = async (answer) => {
  const { status } = await answer;
  await (await answer).arrayBuffer();
  return status;
};
const put = (key, body, headers) => status(send('PUT', key, body, headers));
const get = async (key, headers) => Buffer.from(await (await send('GET', key, undefined, headers)).arrayBuffer());
const stream = (pieces, end) =>
  new ReadableStream({
    pull(controller) {
      if (pieces === 0) return end(controller);
      pieces -= 1;
      controller.enqueue(value.subarray(pieces * 65536, (pieces + 1) * 65536));
    },
  });

// Whole: bytes, a file, and pieces of unknown total length.
await writeFile('value', value);
assert.equal(await put('bytes', value), 200);
assert.equal(await put('file', await openAsBlob('value')), 200);
assert.equal(await put('pieces', stream(128, (controller) => controller.close())), 200);
assert.equal(sha(await get('bytes')), sha(value));
assert.equal(sha(await get('file')), sha(value));
assert.equal((await get('pieces')).length, value.length);
assert.deepEqual(await get('file', { Range: 'bytes=100-199' }), value.subarray(100, 200));

// Conditional.
const stored = await send('PUT', 'register', 'one');
const tag = stored.headers.get('etag');
assert.equal(await status(send('GET', 'register', undefined, { 'If-None-Match': tag })), 304);
assert.equal(await put('register', 'two', { 'If-None-Match': '*' }), 412);
assert.equal(await put('register', 'two', { 'If-Match': tag }), 200);
assert.equal(await put('register', 'three', { 'If-Match': tag }), 412);
assert.equal(String(await get('register')), 'two');

// Cut off: an upload leaves the old value, a download leaves a server that answers.
assert.equal(await put('cut', 'old'), 200);
await assert.rejects(put('cut', stream(20, (controller) => controller.error(new Error('broken')))));
assert.equal(String(await get('cut')), 'old');
const stop = new AbortController();
const answer = await fetch(`${at}/file`, { signal: stop.signal });
const { value: first } = await answer.body.getReader().read();
assert.deepEqual(Buffer.from(first), value.subarray(0, first.length));
stop.abort();
assert.equal(String(await get('cut')), 'old');

// Many at once, and gone.
const turn = async (n) => {
  const key = `many/${n % 5}/${n}`;
  assert.equal(await put(key, String(n)), 200);
  assert.equal(String(await get(key)), String(n));
  assert.equal(await status(send('DELETE', key)), 200);
  assert.equal(await status(send('GET', key)), 404);
};
await Promise.all(Array.from({ length: 40 }, (_, n) => turn(n)));
console.log('held');
