// One file on its way to the server. A small one is sent in one request. A larger one is an upload that can be resumed
// (docs/uploads.md): what breaks off goes on where it stopped, by itself for a while. A server that has no such uploads gets
// it in one request, too.
"use strict";

const Sending = (() => {
  /** Up to here a second request would cost more than sending it all again. */
  const SMALL = 64 << 10;
  /** So often in a row without a byte that arrived, with a pause that doubles. */
  const TRIES = 6;
  const BEATS = 3_000;

  let isResumable = true;

  /** Stores the file of `upload` on this condition. `tell` is told what happens; `upload.sent` counts the bytes. Throws
   * `Refused`, with status 412 where the condition does not hold. */
  async function send(upload, condition, tell) {
    for (let tries = 0; ; tries += 1) {
      const before = upload.from;
      try {
        return await attempt(upload, condition, tell);
      } catch (error) {
        if (!isBreak(error) || upload.abort.signal.aborted) throw error;
        if (upload.from > before && error.status !== 409) tries = 0;
        if (tries === TRIES) throw error;
        await pause(upload, 1000 * 2 ** tries, tell);
      }
    }
  }

  const isBreak = ({ status, isOfPart }) => [0, 502, 503, 504].includes(status) || (status === 409 && isOfPart);

  /** Whether the file goes in one request, which asks for its condition too late. */
  const isWhole = (file) => file.size <= SMALL || !isResumable;

  /** The field for the date that the file has here. */
  const dated = ({ lastModified }) => (lastModified > 0 ? { "X-OC-Mtime": lastModified / 1000 } : {});

  async function attempt(upload, condition, tell) {
    const { file, abort } = upload;
    if (isWhole(file)) return transfer(upload, { method: "PUT", address: path(upload.key), headers: { ...condition, ...dated(file) }, from: 0 }, tell);
    const { url, from, isComplete } = (await find(upload, condition)) ?? (await create(upload, condition)) ?? {};
    if (url === undefined) return attempt(upload, condition, tell);
    if (!isComplete) {
      [upload.from, upload.sent] = [from, from];
      Unfinished.keep(upload, url, condition);
      const beat = setInterval(() => Unfinished.keep(upload, url, condition), BEATS);
      const headers = { "Content-Type": "application/partial-upload", "Upload-Offset": from, "Upload-Complete": "?1" };
      try {
        await transfer(upload, { method: "PATCH", address: url, headers, from }, tell);
      } catch (error) {
        // 409: the part began at another offset, or another tab sends the same file.
        error.isOfPart = true;
        if (abort.signal.aborted) cancel(url);
        // Without a status the upload is there still. With one it may have ended, which the next look at it finds.
        if (abort.signal.aborted || error.status === 412) Unfinished.forget(upload);
        throw error;
      } finally {
        clearInterval(beat);
      }
    }
    Unfinished.forget(upload);
  }

  /** Where an earlier attempt is and how far it came, if there was one and the server has it still. */
  async function find(upload, condition) {
    const url = Unfinished.of(upload, condition);
    if (!url) return null;
    try {
      const { headers } = await request(url, { method: "HEAD", signal: upload.abort.signal });
      return { url, from: Number(headers.get("Upload-Offset")), isComplete: headers.get("Upload-Complete") === "?1" };
    } catch (error) {
      if (error.status !== 404) throw error;
      Unfinished.forget(upload);
      return null;
    }
  }

  /** Creates the upload, by POST: where that is not known it stores nothing. */
  async function create({ key, file, abort }, condition) {
    const headers = { ...condition, ...dated(file), "Upload-Complete": "?0", "Upload-Length": file.size, "Cache-Control": "" };
    if (file.type) headers["Content-Type"] = file.type;
    const address = path(key);
    try {
      const answer = await request(address, { method: "POST", headers, signal: abort.signal, cache: "default" });
      const url = answer.headers.get("Location");
      if (url) return { url: new URL(url, new URL(address, location.href)).pathname, from: 0, isComplete: false };
    } catch (error) {
      if (![404, 405, 501].includes(error.status)) throw error;
    }
    isResumable = false;
    return null;
  }

  function cancel(url) {
    request(url, { method: "DELETE" }).catch(() => {}); // it expires
  }

  /** Sends the file from an offset. XMLHttpRequest, for fetch does not tell how far an upload is. */
  function transfer(upload, { method, address, headers, from }, tell) {
    return new Promise((resolve, reject) => {
      const { file, abort, moved } = upload;
      const sending = new XMLHttpRequest();
      sending.open(method, absolute(address));
      for (const [name, value] of Object.entries(headers)) sending.setRequestHeader(name, value);
      // The field is kept with the value. Without this one, browsers send one of their own.
      sending.setRequestHeader("Cache-Control", "");
      const arrived = (count) => {
        [upload.sent, upload.moved] = [from + count, moved + count];
        tell(upload.sent >= file.size ? "storing" : "");
      };
      sending.upload.onprogress = (event) => arrived(event.loaded);
      sending.onload = () => (sending.status === 200 ? resolve() : reject(new Refused(sending.status, sending.responseText)));
      sending.onerror = () => reject(new Refused(0, "the connection broke off"));
      sending.onabort = () => reject(new Error("cancelled"));
      abort.signal.addEventListener("abort", () => sending.abort());
      arrived(0);
      sending.send(from === 0 ? file : file.slice(from));
    });
  }

  /** Waits, or until the network is back. */
  function pause({ abort }, millis, tell) {
    tell(`the connection broke off: trying again in ${Format.duration(millis / 1000)}`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, millis);
      window.addEventListener("online", resolve, { once: true });
      abort.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new Error("cancelled"));
      });
    });
  }

  return { send, cancel, isWhole, SMALL };
})();
