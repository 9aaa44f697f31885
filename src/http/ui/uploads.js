// Uploads: a few at a time, each with its progress and a way to cancel it. The browser streams each file from the disk.
// Nothing is replaced unasked: a new key is stored only if there is none, an old one only as the version asked about.
"use strict";

const Uploads = (() => {
  const AT_ONCE = 2;

  const queue = [];
  let running = 0;
  /** The answer that is for all the other files, until the queue is empty. */
  let forAll = null;

  function add(files) {
    for (const { file, key } of files) {
      const upload = { file, key, item: null, abort: new AbortController() };
      upload.item = makeItem(upload);
      queue.push(upload);
    }
    $("uploads").hidden = $("uploads-list").childElementCount === 0;
    advance();
  }

  function makeItem(upload) {
    const name = shown(upload.key);
    const item = make(
      "li",
      {},
      make("span", { class: "name" }, name),
      make("progress", { max: Math.max(1, upload.file.size), value: 0, "aria-label": `Progress of ${name}` }),
      make("span", { class: "fate" }, "waiting"),
      make("button", { type: "button", "aria-label": `Cancel ${name}`, click: () => upload.abort.abort() }, "Cancel"),
    );
    $("uploads-list").append(item);
    return item;
  }

  function advance() {
    while (running < AT_ONCE && queue.length > 0) {
      running += 1;
      run(queue.shift()).finally(() => {
        running -= 1;
        if (running === 0 && queue.length === 0) forAll = null;
        advance();
      });
    }
  }

  async function run(upload) {
    const name = shown(upload.key);
    try {
      const isStored = await store(upload);
      end(upload, isStored ? "stored" : "kept", isStored ? `stored, ${Format.size(upload.file.size)}` : "left as it was");
      if (isStored && !Live.isLive()) Keys.load({ isQuiet: true });
      if (isStored) say(`${name} is stored`);
    } catch (error) {
      const isCancelled = upload.abort.signal.aborted;
      end(upload, isCancelled ? "kept" : "failed", isCancelled ? "cancelled" : `not stored: ${error.message}`);
      say(isCancelled ? `${name} is cancelled` : `${name} was not stored: ${error.message}`);
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
      offerAll: queue.length > 0 || running > 1,
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
    upload.item.className = kind;
    fate(upload, text);
    upload.item.querySelector("progress").remove();
    const button = upload.item.querySelector("button");
    const hadFocus = button === document.activeElement;
    const close = make("button", { type: "button", class: "quiet only-icon", "aria-label": `Remove ${shown(upload.key)} from this list`, click: () => dismiss(upload.item) }, icon("close"));
    button.replaceWith(close);
    if (hadFocus) close.focus();
  }

  function dismiss(item) {
    item.remove();
    $("uploads").hidden = $("uploads-list").childElementCount === 0;
    $("upload").focus();
  }

  function clear() {
    for (const item of [...$("uploads-list").children]) if (item.className) item.remove();
    $("uploads").hidden = $("uploads-list").childElementCount === 0;
    $("upload").focus();
  }

  return { add, clear, isBusy: () => running > 0 };
})();
