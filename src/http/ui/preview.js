// A look at a file: the beginning of a text, an image, sound, film, or a PDF. A file is never opened as a document that
// can act. Texts are shown as text. An image or a PDF is fetched, and shown as a blob of that type, whatever is stored by
// then. Sound and film are played by elements that run nothing. The address has the file, so the way back closes it.
"use strict";

const Preview = (() => {
  const BEGINNING = 64 << 10;
  const LARGEST_BLOB = 32 << 20;
  const PDF = "application/pdf";
  const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon|vnd\.microsoft\.icon)$/;
  const PLAYED = /^(audio|video)\/|^application\/ogg$/;
  const TEXTS = /^text\/|[/+](json|xml|yaml|toml|javascript|x-sh|x-ndjson|sql|x-www-form-urlencoded)$/;

  let current = null;
  let fetching = null;
  let address = null;
  /** The way back, while it is under way. */
  let leaving = null;

  /** Opens the file of `key`, and has the address tell it. */
  async function open(key) {
    await leaving;
    window.history.pushState({ ...window.history.state, isPreview: true }, "", Place.address(Keys.place(), key) + location.hash);
    await follow(key);
  }

  /** The one before or behind, in the order of the list. */
  async function step(by) {
    const next = current && Keys.beside(current.key, by);
    if (!next || !(await Edit.leave())) return;
    window.history.replaceState(window.history.state, "", Place.address(Keys.place(), next.key) + location.hash);
    follow(next.key);
  }

  /** Shows the file that the address tells, or none. */
  async function follow(key) {
    if (key === (current?.key ?? null)) return;
    if (Edit.isDirty()) {
      // It was the way back: what was typed is not lost unasked.
      window.history.pushState({ ...window.history.state, isPreview: true }, "", Place.address(Keys.place(), current.key) + location.hash);
      return close();
    }
    const left = current?.key;
    clear();
    if (key === null) return shut(left);
    await begin(key);
  }

  /** Shows what is there now of the same file. */
  function again() {
    const { key } = current;
    clear();
    begin(key);
  }

  async function begin(key) {
    const mine = new AbortController();
    fetching = mine;
    current = { key };
    $("preview-title").textContent = shown(key);
    $("preview-facts").textContent = "";
    for (const id of ["preview-delete", "preview-share", "preview-rename", "preview-edit"]) $(id).hidden = true;
    $("preview-download").hidden = !Rights.has("read", key);
    $("preview-download").href = path(key);
    $("preview-download").download = key.split("/").at(-1);
    show(make("p", { class: "muted" }, "Loading"));
    if (!$("preview").open) $("preview").showModal();
    try {
      const entry = Keys.entry(key) ?? (await find(key, mine.signal));
      mine.signal.throwIfAborted();
      tell(entry);
      await look(entry, mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.status !== 404) return show(make("p", {}, `No preview: ${error.message}`));
      show(make("p", {}, current.etag ? "This file is gone." : "There is no such file."));
      for (const id of ["preview-delete", "preview-share", "preview-rename", "preview-download"]) $(id).hidden = true;
    }
  }

  /** A file that is not in the list. */
  async function find(key, signal) {
    const { keys } = await list("", { prefix: key, limit: 1 }, signal);
    if (keys[0]?.key !== key) throw new Refused(404, "there is no such file");
    return keys[0];
  }

  function tell(entry) {
    current = entry;
    const may = (right) => Rights.has(right, entry.key);
    $("preview-facts").textContent = `${Format.bytes(entry.size)}, ${Format.day.format(new Date(entry.date ?? entry.modified))}`;
    $("preview-delete").hidden = !may("delete");
    $("preview-share").hidden = !Share.may(entry.key);
    $("preview-rename").hidden = !Rename.mayCopy(entry.key);
    outline();
  }

  /** Offers the files beside, which the list may only have now. */
  function outline() {
    for (const [id, by] of [["preview-previous", -1], ["preview-next", 1]]) $(id).hidden = !current || !Keys.beside(current.key, by);
    // A button that is offered no more had the focus.
    const focused = document.activeElement;
    if (isOnTop() && !($("preview").contains(focused) && focused.checkVisibility())) $("preview-close").focus();
  }

  async function look(entry, signal) {
    const head = (await request(path(entry.key), { method: "HEAD", signal })).headers;
    const type = (head.get("Content-Type") ?? "").split(";")[0].trim().toLowerCase();
    $("preview-facts").textContent += `, ${type}`;
    const isCoded = storedCoding(head) !== null;
    const isText = TEXTS.test(type);
    if (head.get("Content-Length") === "0") {
      Edit.offer(entry, !isCoded, "");
      show(make("p", { class: "muted" }, "This file is empty."));
    } else if (IMAGES.test(type) || type === PDF) {
      await showBlob(entry, type, signal);
    } else {
      const [bytes, size] = await beginning(entry, isCoded, signal);
      if (PLAYED.test(type)) showMedia(entry, type, bytes, size);
      else Edit.offer(entry, !isCoded, showText(bytes, size, isText));
    }
  }

  /** The first bytes of the file, and how many it has: `Infinity` where that is not known. Browsers take no part of what
   * they have to decode, so of that the answer is given up once there is enough. */
  async function beginning(entry, isCoded, signal) {
    const answer = await request(path(entry.key), { headers: isCoded ? {} : { Range: `bytes=0-${BEGINNING - 1}` }, signal });
    const reader = answer.body.getReader();
    const bytes = new Uint8Array(BEGINNING);
    let length = 0;
    let isWhole = false;
    while (length < BEGINNING && !isWhole) {
      const { done, value } = await reader.read();
      isWhole = done;
      const part = value?.subarray(0, BEGINNING - length) ?? [];
      bytes.set(part, length);
      length += part.length;
    }
    reader.cancel();
    const total = answer.headers.get("Content-Range")?.split("/")[1];
    return [bytes.subarray(0, length), Number(total ?? (isWhole ? length : Infinity))];
  }

  /** The browser asks for what it plays, part by part. What it cannot play may be a text: `.ts` is a film, too. */
  function showMedia(entry, type, bytes, size) {
    const failed = (event) => event.currentTarget.isConnected && Edit.offer(entry, true, showText(bytes, size, false));
    const kind = type.startsWith("audio/") ? "audio" : "video";
    show(make(kind, { src: path(entry.key), controls: "", preload: "metadata", "aria-label": `The ${kind} ${shown(entry.key)}`, error: failed }));
  }

  async function showBlob(entry, type, signal) {
    const [kind, isShown] = type === PDF ? ["PDF", navigator.pdfViewerEnabled] : ["image", true];
    if (!isShown || entry.size > LARGEST_BLOB) {
      show(make("p", {}, isShown ? `This ${kind} is too large for a preview: download it.` : `This browser shows no ${kind}: download it.`));
      return;
    }
    const answer = await request(path(entry.key), { signal });
    const blob = new Blob([await answer.blob()], { type });
    signal.throwIfAborted();
    address = URL.createObjectURL(blob);
    const failed = () => show(make("p", {}, "This image cannot be shown."));
    if (type === PDF) show(make("iframe", { src: `${address}#navpanes=0`, title: `The PDF ${shown(entry.key)}` }));
    else show(make("img", { src: address, alt: `The image ${shown(entry.key)}`, error: failed }));
  }

  /** Bytes of no known type are shown when they are text. Returns the text, or `null` where the bytes are not UTF-8. A character may
   * be cut in two at the end. */
  function showText(bytes, size, isText) {
    const decode = (fatal) => new TextDecoder("utf-8", { fatal }).decode(bytes, { stream: bytes.length < size });
    let text = null;
    try {
      text = decode(true);
    } catch {
      // It is shown all the same, if its type says that it is a text.
    }
    if (!isText && (text ?? "\0").includes("\0")) {
      show(make("p", { class: "muted" }, "No preview: this is neither text nor an image, and nothing that this browser plays."));
      return null;
    }
    const parts = [make("pre", { tabindex: "0", role: "region", "aria-label": "Text of the file" }, text ?? decode(false))];
    if (bytes.length < size) parts.push(make("p", { class: "muted" }, `The first ${Format.size(bytes.length)}${size === Infinity ? "" : ` of ${Format.size(size)}`}.`));
    show(...parts);
    return text;
  }

  function show(...parts) {
    const played = $("preview-body").querySelector("audio, video");
    $("preview-body").replaceChildren(...parts);
    // Out of the document it would still play.
    played?.pause();
    played?.removeAttribute("src");
    played?.load();
  }

  function clear() {
    fetching?.abort();
    Edit.end();
    show();
    if (address) URL.revokeObjectURL(address);
    [current, fetching, address] = [null, null, null];
  }

  /** Closes it, and has the address tell so: by the way back, where that leads to the list. */
  async function close() {
    if (current === null || !(await Edit.leave())) return;
    const { key } = current;
    clear();
    shut(key);
    forget();
  }

  /** Closes the dialog. The focus goes to the row of the file that was seen last. */
  function shut(key) {
    $("preview").close();
    $("rows").querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  function forget() {
    if (window.history.state?.isPreview) {
      leaving = new Promise((resolve) => window.addEventListener("popstate", resolve, { once: true }));
      window.history.back();
    } else window.history.replaceState(window.history.state, "", Place.address(Keys.place()) + location.hash);
  }

  async function thenClose(act) {
    const entry = current;
    await close();
    if (current === null) act(entry);
  }

  $("preview").addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  // A browser may close a dialog without asking.
  $("preview").addEventListener("close", () => {
    if (current === null) return;
    clear();
    forget();
  });
  $("preview-close").addEventListener("click", close);
  $("preview-previous").addEventListener("click", () => step(-1));
  $("preview-next").addEventListener("click", () => step(1));
  $("preview-delete").addEventListener("click", () => thenClose(Removal.one));
  $("preview-share").addEventListener("click", () => Share.open(current));
  $("preview-rename").addEventListener("click", () => thenClose(Rename.open));
  const isOnTop = () => $("preview").open && document.querySelectorAll("dialog[open]").length === 1;

  document.addEventListener("keydown", (event) => {
    if (!isOnTop() || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.target.matches("textarea, audio, video")) return;
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  // A click beside the dialog hits the dialog itself, and none of what it holds covers its padding.
  $("preview").addEventListener("click", (event) => {
    const box = $("preview").getBoundingClientRect();
    const isInside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (event.target === $("preview") && !isInside) close();
  });

  return { open, follow, again, outline };
})();
