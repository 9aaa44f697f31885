// Uploads: a few at a time, each with its progress and a way to cancel it. The browser streams each file from the disk.
// Nothing is replaced unasked: a new key is stored only if there is none, an old one only as the version asked about.
// However many files there are, few wait here and few are shown: a source of more is asked again when there is room.
"use strict";

const Uploads = (() => {
  const AT_ONCE = 4;
  const AHEAD = 1_000;
  const SHOWN = 100;
  /** Of more uploads than these, only the end is said aloud. */
  const SAID = 5;

  const queue = [];
  const running = new Set();
  /** The sources that are not at their end, each by what has it go on. */
  const sources = new Set();
  /** The answer that is for all the other files, until there are none. */
  let forAll = null;
  /** How many there were since the list was empty, and what became of them. */
  let total = 0;
  let fates = { stored: 0, kept: 0, failed: 0, cancelled: 0 };

  /** Uploads what `files` gives, each with its key. */
  async function add(files) {
    const source = { goOn: () => {}, isEnded: false };
    sources.add(source);
    try {
      for await (const { file, key } of files) {
        while (queue.length >= AHEAD && !source.isEnded) await new Promise((resolve) => (source.goOn = resolve));
        if (source.isEnded) return;
        enqueue({ file, key, item: null, abort: new AbortController() });
      }
    } finally {
      sources.delete(source);
      advance();
    }
  }

  function enqueue(upload) {
    total += 1;
    queue.push(upload);
    if ($("uploads-list").childElementCount < SHOWN) makeItem(upload);
    advance();
  }

  function makeItem(upload) {
    const name = shown(upload.key);
    upload.item = make(
      "li",
      {},
      make("span", { class: "name" }, name),
      make("progress", { max: Math.max(1, upload.file.size), value: 0, "aria-label": `Progress of ${name}` }),
      make("span", { class: "fate" }, "waiting"),
      make("button", { type: "button", "aria-label": `Cancel ${name}`, click: () => cancel(upload) }, "Cancel"),
    );
    $("uploads-list").append(upload.item);
  }

  /** Makes room in the list for one more: what is stored is the first to go, what failed the last. */
  function makeRoom() {
    if ($("uploads-list").childElementCount < SHOWN) return;
    for (const kind of ["stored", "kept", "failed"]) {
      const item = $("uploads-list").querySelector(`.${kind}`);
      if (item) return item.remove();
    }
  }

  function advance() {
    while (running.size < AT_ONCE && queue.length > 0) {
      const upload = queue.shift();
      running.add(upload);
      run(upload).finally(() => {
        running.delete(upload);
        advance();
      });
    }
    if (queue.length < AHEAD / 2) for (const source of sources) source.goOn();
    if (!isBusy()) forAll = null;
    outline();
  }

  const isBusy = () => running.size + queue.length + sources.size > 0;

  /** Shows how many there are and what became of them. */
  function outline() {
    const { stored, kept, failed, cancelled } = fates;
    const done = stored + kept + failed + cancelled;
    const parts = [`${Format.exact.format(stored)} of ${Format.exact.format(total)} stored`];
    if (failed > 0) parts.push(`${Format.exact.format(failed)} failed`);
    if (cancelled > 0) parts.push(`${Format.exact.format(cancelled)} cancelled`);
    if (kept > 0) parts.push(`${Format.exact.format(kept)} left as they were`);
    $("uploads").hidden = $("uploads-list").childElementCount === 0;
    $("uploads-count").textContent = total > 1 ? parts.join(", ") : "";
    $("uploads-cancel").hidden = queue.length + sources.size === 0 && running.size < 2;
    if (total > SAID && done === total && !isBusy()) say(`Uploads: ${parts.join(", ")}`);
  }

  function cancel(upload) {
    upload.abort.abort();
    const at = queue.indexOf(upload);
    if (at < 0) return;
    queue.splice(at, 1);
    end(upload, "cancelled", "cancelled");
    advance();
  }

  function cancelAll() {
    for (const source of sources) {
      source.isEnded = true;
      source.goOn();
    }
    for (const upload of queue.splice(0)) end(upload, "cancelled", "cancelled");
    for (const upload of running) upload.abort.abort();
    outline();
    $("upload").focus();
  }

  async function run(upload) {
    const name = shown(upload.key);
    if (!upload.item) {
      makeRoom();
      makeItem(upload);
    }
    try {
      const isStored = await store(upload);
      end(upload, isStored ? "stored" : "kept", isStored ? `stored, ${Format.size(upload.file.size)}` : "left as it was");
      if (isStored && !Live.isLive()) Keys.refresh();
      if (isStored && total <= SAID) say(`${name} is stored`);
    } catch (error) {
      const isCancelled = upload.abort.signal.aborted;
      end(upload, isCancelled ? "cancelled" : "failed", isCancelled ? "cancelled" : `not stored: ${error.message}`);
      if (total <= SAID) say(isCancelled ? `${name} is cancelled` : `${name} was not stored: ${error.message}`);
    }
  }

  /** Stores the file. Resolves to `false` where the answer was to keep what is there. */
  async function store(upload) {
    const address = path(upload.key);
    // Someone else may store the key between the question and the answer: then it is asked again, but not for ever.
    for (let tries = 0; tries < 5; tries += 1) {
      upload.abort.signal.throwIfAborted();
      const present = await look(address, upload.abort.signal);
      if (present && !(await mayReplace(upload))) return false;
      upload.abort.signal.throwIfAborted();
      try {
        await send(upload, address, present ? { "If-Match": present } : { "If-None-Match": "*" });
        return true;
      } catch (error) {
        if (error.status !== 412) throw error;
      }
    }
    throw new Error("others keep changing this key");
  }

  /** The entity tag of what is there, or `null`. */
  async function look(address, signal) {
    try {
      const answer = await request(address, { method: "HEAD", signal });
      return answer.headers.get("ETag");
    } catch (error) {
      if (error.status === 0 || error.name === "AbortError") throw error;
      return null; // the PUT is refused too, and says why
    }
  }

  async function mayReplace(upload) {
    fate(upload, "there is one already");
    const answer = await ask({
      title: `Replace ${shown(upload.key)}?`,
      text: "There is a value with this key already. Its present version will be lost.",
      yes: "Replace",
      offerAll: queue.length + sources.size > 0 || running.size > 1,
      settled: () => (upload.abort.signal.aborted ? { isYes: false } : forAll),
    });
    if (answer.isForAll) forAll = { isYes: answer.isYes };
    return answer.isYes;
  }

  /** XMLHttpRequest, for fetch does not tell how far an upload is. */
  function send(upload, address, condition) {
    return new Promise((resolve, reject) => {
      const put = new XMLHttpRequest();
      const begun = performance.now();
      put.open("PUT", address);
      for (const [name, value] of Object.entries(condition)) put.setRequestHeader(name, value);
      // The field is kept with the value. Without this one, browsers send one of their own.
      put.setRequestHeader("Cache-Control", "");
      put.upload.onprogress = (event) => progress(upload, event.loaded, performance.now() - begun);
      put.onload = () => (put.status === 200 ? resolve() : reject(new Refused(put.status, put.responseText)));
      put.onerror = () => reject(new Refused(0, "the connection broke off"));
      put.onabort = () => reject(new Error("cancelled"));
      upload.abort.signal.addEventListener("abort", () => put.abort());
      fate(upload, "sending");
      put.send(upload.file);
    });
  }

  function progress(upload, loaded, millis) {
    upload.item.querySelector("progress").value = loaded;
    const total = upload.file.size;
    const rate = millis > 500 ? `, ${Format.size((loaded / millis) * 1000)}/s` : "";
    fate(upload, loaded >= total ? "storing" : `${Format.size(loaded)} of ${Format.size(total)}${rate}`);
  }

  function fate(upload, text) {
    upload.item.querySelector(".fate").textContent = text;
  }

  function end(upload, kind, text) {
    fates[kind] += 1;
    if (!upload.item) return;
    upload.item.className = kind === "cancelled" ? "kept" : kind;
    fate(upload, text);
    upload.item.querySelector("progress").remove();
    const button = upload.item.querySelector("button");
    const hadFocus = button === document.activeElement;
    const close = make("button", { type: "button", class: "quiet only-icon", "aria-label": `Remove ${shown(upload.key)} from this list`, click: () => clear([upload.item]) }, icon("close"));
    button.replaceWith(close);
    if (hadFocus) close.focus();
  }

  /** Takes these items off the list; by default all that are finished. */
  function clear(items = [...$("uploads-list").children].filter((item) => item.className)) {
    for (const item of items) item.remove();
    if (!isBusy() && $("uploads-list").childElementCount === 0) {
      total = 0;
      fates = { stored: 0, kept: 0, failed: 0, cancelled: 0 };
    }
    outline();
    $("upload").focus();
  }

  $("uploads-clear").addEventListener("click", () => clear());
  $("uploads-cancel").addEventListener("click", cancelAll);
  window.addEventListener("beforeunload", (event) => isBusy() && event.preventDefault());

  return { add };
})();
