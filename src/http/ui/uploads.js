// Uploads: a few at a time, each with its progress and a way to cancel it, and a line for all of them. What is done leaves the
// list, what failed stays with a way to try it again. Nothing is replaced unasked: a new file is stored only if there is none
// of its name, an old one only as the version asked about. However many files there are, few wait here and few are shown: a
// source of more is asked again when there is room.
"use strict";

const Uploads = (() => {
  const AT_ONCE = 4;
  const AHEAD = 1_000;
  const SHOWN = 100;
  /** Of more than are shown, a small file is shown once it takes this long, in milliseconds. */
  const LATE = 500;
  /** Of more uploads than these, only the end is said aloud. */
  const SAID = 5;
  /** The rate is that of the last seconds. */
  const WINDOW = 5_000;
  const EVERY = 500;
  /** The state of all is drawn this often at most. */
  const DRAWN = 100;

  const queue = [];
  const running = new Set();
  /** The sources that are not at their end, each by what has it go on. */
  const sources = new Set();
  /** The lines of those that broke off before this page was loaded. */
  const unfinished = new Map();
  /** The answer that is for all the other files, until there are none. */
  let forAll = null;
  /** How many there are, what became of them, and their bytes: all, and those of files that are done with; and what this page has
   * sent, which is less where the server had some already. */
  let total = 0;
  let fates = none();
  let bytes = { all: 0, done: 0, stored: 0, moved: 0 };
  /** When how many bytes had been sent, of all files and of each. */
  let marks = [];
  let timer = 0;
  let [later, drawn] = [0, -DRAWN];

  function none() {
    return { stored: 0, kept: 0, failed: 0, cancelled: 0 };
  }

  /** Uploads what `files` gives, each with its key; a key without a file is that of a folder, which is made. */
  async function add(files) {
    if (!isBusy()) reset();
    const source = { goOn: () => {}, isEnded: false };
    sources.add(source);
    try {
      for await (const { file, key } of files) {
        while (queue.length >= AHEAD && !source.isEnded) await new Promise((resolve) => (source.goOn = resolve));
        if (source.isEnded) return;
        if (!file) {
          await Folders.keep(key);
          continue;
        }
        enqueue({ file, key, item: null, sent: 0, from: 0, moved: 0, isIdle: true, marks: [], abort: new AbortController() });
      }
    } finally {
      sources.delete(source);
      advance();
    }
  }

  /** Counts anew; what failed before is still in the list. */
  function reset() {
    const failed = $("uploads-list").querySelectorAll(".failed").length;
    [total, fates, bytes, marks] = [failed, { ...none(), failed }, { all: 0, done: 0, stored: 0, moved: 0 }, []];
  }

  function enqueue(upload) {
    total += 1;
    bytes.all += upload.file.size;
    unfinished.get(Unfinished.name(upload))?.remove(); // it goes on
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
      make("span", { class: "acts" }, make("button", { type: "button", "aria-label": `Cancel ${name}`, click: () => cancel(upload) }, "Cancel")),
    );
    $("uploads-list").append(upload.item);
  }

  /** Shows one that is not in the list. There has to be room for it: what failed first goes. */
  function present(upload) {
    if (upload.item) return;
    if ($("uploads-list").childElementCount >= SHOWN) $("uploads-list").querySelector(".failed")?.remove();
    makeItem(upload);
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

  /** Shows how far all of them are, and what became of them. */
  function outline() {
    const wait = drawn + DRAWN - performance.now();
    if (wait <= 0) draw();
    else later ||= setTimeout(draw, wait);
  }

  function draw() {
    clearTimeout(later);
    [later, drawn] = [0, performance.now()];
    const count = (number) => Format.exact.format(number);
    const { stored, kept, failed, cancelled } = fates;
    const parts = [`${count(stored)} of ${count(total)} uploaded`];
    if (failed > 0) parts.push(`${count(failed)} failed`);
    if (cancelled > 0) parts.push(`${count(cancelled)} cancelled`);
    if (kept > 0) parts.push(`${count(kept)} left as ${kept === 1 ? "it was" : "they were"}`);
    const said = parts.join(", ");
    const isOver = !isBusy();
    if (!isOver) parts.push(...pace());
    else if (stored > 0) parts.push(Format.size(bytes.stored));
    const waiting = $("uploads-list").childElementCount;
    $("uploads").hidden = total === 0 && waiting === 0;
    $("uploads-list").hidden = waiting === 0;
    $("uploads-count").textContent = total > 0 ? parts.join(", ") : "";
    $("uploads-progress").hidden = isOver;
    $("uploads-cancel").hidden = queue.length + sources.size === 0 && running.size < 2;
    $("uploads-retry").hidden = $("uploads-list").querySelectorAll(".failed").length < 2;
    $("uploads-clear").hidden = !isOver;
    if (isOver) timer = clearInterval(timer);
    else timer ||= setInterval(outline, EVERY);
    if (total > SAID && isOver && stored + kept + failed + cancelled === total) say(`Uploads: ${said}`);
  }

  /** The percent, the rate and the time left of all files that are known of. */
  function pace() {
    const sum = (what) => [...running].reduce((sum, upload) => sum + upload[what], 0);
    const sent = bytes.done + sum("sent");
    $("uploads-progress").value = bytes.all > 0 ? sent / bytes.all : 0;
    // Nothing is sent while all that could be sent wait: for an answer, or for the network.
    if ([...running].every((upload) => upload.isIdle)) marks.length = 0;
    return speed(marks, bytes.moved + sum("moved"), bytes.all, sent);
  }

  /** The same in words: `sent` of `all` bytes are there, and this page has `moved` so many until now. */
  function speed(marks, moved, all, sent) {
    const now = performance.now();
    marks.push({ now, moved });
    while (now - marks[0].now > WINDOW) marks.shift();
    const parts = [`${all > 0 ? Math.floor((100 * sent) / all) : 100} % of ${Format.size(all)}`];
    const [seconds, got] = [(now - marks[0].now) / 1000, moved - marks[0].moved];
    if (seconds > 0.5 && got > 0) parts.push(`${Format.size(got / seconds)}/s`, `${Format.duration(((all - sent) * seconds) / got)} left`);
    return parts;
  }

  function cancel(upload) {
    upload.abort.abort();
    const at = queue.indexOf(upload);
    if (at < 0) return;
    queue.splice(at, 1);
    end(upload, "cancelled");
    advance();
  }

  function cancelAll() {
    for (const source of sources) {
      source.isEnded = true;
      source.goOn();
    }
    for (const upload of queue.splice(0)) end(upload, "cancelled");
    for (const upload of running) upload.abort.abort();
    outline();
    $("upload").focus();
  }

  async function run(upload) {
    const name = () => shown(upload.key);
    const late = setTimeout(() => present(upload), upload.file.size > Sending.SMALL ? 0 : LATE);
    try {
      const isStored = await store(upload);
      end(upload, isStored ? "stored" : "kept");
      if (isStored && !Live.isLive()) Keys.refresh();
      if (total <= SAID) say(isStored ? `${name()} is uploaded` : `${name()} is left as it was`);
    } catch (error) {
      const isCancelled = upload.abort.signal.aborted;
      end(upload, isCancelled ? "cancelled" : "failed", error.message);
      if (total <= SAID) say(isCancelled ? `${name()} is cancelled` : `${name()} was not uploaded: ${error.message}`);
    } finally {
      clearTimeout(late);
    }
  }

  /** Stores the file. Resolves to `false` where the answer was to keep what is there. */
  async function store(upload) {
    const { signal } = upload.abort;
    let present = Keys.entry(upload.key) ?? null;
    // A long body that is refused at its end would be sent for nothing.
    if (!present && Sending.isWhole(upload.file) && upload.file.size > 1 << 20) present = await look(upload, signal);
    const { key } = upload;
    let number = 0;
    // Someone else may store the key between the question and the answer: then it is asked again, but not for ever. A number for a
    // name beside it may be taken, too.
    for (let tries = 0; tries < (number > 0 ? 1000 : 5); tries += 1) {
      const answer = present && number === 0 ? await mayReplace(upload, present) : { isYes: true };
      if (!answer.isYes && !answer.isOther) return false;
      signal.throwIfAborted();
      if (number > 0 || answer.isOther) {
        do upload.key = beside(key, (number += 1));
        while (Keys.entry(upload.key));
        present = null;
        fate(upload, "waiting");
        upload.item.querySelector(".name").textContent = shown(upload.key);
      }
      try {
        Keys.date(upload.key, new Date(upload.file.lastModified));
        await Sending.send(upload, present ? { "If-Match": present.etag } : { "If-None-Match": "*" }, (what) => tell(upload, what));
        return true;
      } catch (error) {
        if (error.status !== 412) throw error;
        if (number === 0) present = await look(upload, signal);
      }
    }
    throw new Error("others keep changing this file");
  }

  /** What is there, or `null`. */
  async function look({ key }, signal) {
    try {
      const { headers } = await request(path(key), { method: "HEAD", signal });
      const date = headers.get("X-OC-Mtime");
      return { etag: headers.get("ETag"), size: Number(headers.get("Content-Length")), modified: date ? 1000 * date : headers.get("Last-Modified") };
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  async function mayReplace(upload, present) {
    if (!Rights.has("write", upload.key)) throw new Error("it is there already, and you may not replace it");
    fate(upload, "there is one already");
    upload.isIdle = true;
    const [there, mine] = [new Date(present.date ?? present.modified), new Date(upload.file.lastModified)];
    const facts = (size, date, other) => `${Format.size(size)}, changed ${Format.day.format(date)}${date > other ? " (newer)" : ""}`;
    await new Promise((resolve) => setTimeout(resolve)); // a source that has no more files has ended by then
    const others = queue.length + sources.size > 0 || running.size > 1;
    const answer = await ask({
      title: `Replace ${shown(upload.key)}?`,
      text: "There is a file of this name already. If you replace it, what is there now is lost.",
      facts: [["There now", facts(present.size, there, mine)], ["Your file", facts(upload.file.size, mine, there)]],
      yes: "Replace",
      other: "Keep both",
      no: "Keep what is there",
      all: others ? "Do the same with all other files that are there already" : "",
      settled: () => (upload.abort.signal.aborted ? { isYes: false } : forAll),
    });
    if (answer.isForAll) forAll = answer;
    return answer;
  }

  function tell(upload, what) {
    const isUnderWay = !what || what === "storing";
    upload.isIdle = !isUnderWay;
    if (upload.isIdle) upload.marks.length = 0;
    if (!upload.item && isUnderWay) return;
    present(upload);
    upload.item.querySelector("progress").value = upload.sent;
    fate(upload, what || speed(upload.marks, upload.moved, upload.file.size, upload.sent).join(", "));
  }

  function fate(upload, text) {
    present(upload);
    upload.item.querySelector(".fate").textContent = text;
  }

  function end(upload, kind, why) {
    fates[kind] += 1;
    const { size } = upload.file;
    bytes.moved += upload.moved;
    if (kind === "stored") bytes.stored += size;
    if (kind === "stored" || kind === "kept") bytes.done += size;
    else bytes.all -= size;
    if (kind === "failed") present(upload);
    const { item } = upload;
    if (!item) return;
    const hadFocus = item.contains(document.activeElement);
    if (kind !== "failed") {
      item.remove();
      if (hadFocus) $("upload").focus();
      return;
    }
    const name = shown(upload.key);
    item.className = kind;
    item.goOn = () => again(upload);
    fate(upload, `not uploaded: ${why}`);
    item.querySelector("progress").remove();
    const retry = make("button", { type: "button", "aria-label": `Try again: ${name}`, click: item.goOn }, "Try again");
    item.querySelector(".acts").replaceChildren(retry, closer(`Remove ${name} from this list`, () => item));
    if (hadFocus) retry.focus();
  }

  function closer(name, item, then = () => {}) {
    const close = () => {
      item().remove();
      then();
      outline();
      $("upload").focus();
    };
    return make("button", { type: "button", class: "quiet only-icon", "aria-label": name, click: close }, icon("close"));
  }

  /** Tries what failed once more; it goes on where it stopped, if the server has that still. */
  function again({ file, key, item }) {
    fates.failed -= 1;
    total -= 1;
    item.remove();
    add([{ file, key }]);
  }

  /** Those that broke off before this page was loaded: a page cannot read a file by itself, so it has to be chosen again. */
  function showUnfinished() {
    for (const { id, key, size, sent, url } of Unfinished.waiting()) {
      if (!Rights.has("create", key)) continue;
      const name = shown(key);
      const choose = () => {
        $("again").value = "";
        $("again").onchange = () => goOn(id, key, $("again").files[0]);
        $("again").click();
      };
      const discard = () => {
        Unfinished.discard(id);
        Sending.cancel(url);
      };
      const item = make(
        "li",
        { class: "unfinished" },
        make("span", { class: "name" }, name),
        make("progress", { max: Math.max(1, size), value: sent, "aria-label": `Progress of ${name}` }),
        make("span", { class: "fate" }, `broke off at ${Math.floor((100 * sent) / size)} % of ${Format.size(size)}: choose the same file again, and it goes on`),
        make("span", { class: "acts" }, make("button", { type: "button", "aria-label": `Choose the file: ${name}`, click: choose }, "Choose the file"), closer(`Give ${name} up`, () => item, discard)),
      );
      unfinished.set(id, item);
      $("uploads-list").append(item);
    }
    outline();
  }

  function goOn(id, key, file) {
    if (!file) return;
    if (id !== Unfinished.name({ key, file })) {
      note(`${shown(file.name)} is another file than the one that broke off: it has another name, size or date.`, true);
      return;
    }
    add([{ file, key }]);
  }

  /** Takes the panel away. */
  function clear() {
    $("uploads-list").replaceChildren();
    reset();
    outline();
    $("upload").focus();
  }

  $("uploads-clear").addEventListener("click", clear);
  $("uploads-cancel").addEventListener("click", cancelAll);
  $("uploads-retry").addEventListener("click", () => {
    for (const item of $("uploads-list").querySelectorAll(".failed")) item.goOn();
  });
  window.addEventListener("beforeunload", (event) => isBusy() && event.preventDefault());
  showUnfinished();

  return { add };
})();
