// A look at a value: the beginning of a text, an image, sound, film, or a PDF. A value is never opened as a document that
// can act. Texts are shown as text. An image or a PDF is fetched, and shown as a blob of that type, whatever is stored by
// then. Sound and film are played by elements that run nothing.
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

  async function open(entry) {
    if (!entry) return;
    close();
    current = entry;
    fetching = new AbortController();
    $("preview-title").textContent = shown(entry.key);
    $("preview-facts").textContent = `${Format.bytes(entry.size)}, ${Format.day.format(new Date(entry.modified))}`;
    const may = (right) => Rights.has(right, entry.key);
    $("preview-delete").hidden = !may("delete");
    $("preview-rename").hidden = !(may("read") && may("delete") && Rights.hasAny("create"));
    $("preview-download").hidden = !may("read");
    $("preview-download").href = path(entry.key);
    $("preview-download").download = entry.key.split("/").at(-1);
    show(make("p", { class: "muted" }, "Loading"));
    $("preview").showModal();
    try {
      await look(entry, fetching.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      show(make("p", {}, error.status === 404 ? "This key is gone." : `No preview: ${error.message}`));
    }
  }

  async function look(entry, signal) {
    const head = (await request(path(entry.key), { method: "HEAD", signal })).headers;
    const type = (head.get("Content-Type") ?? "").split(";")[0].trim().toLowerCase();
    $("preview-facts").textContent += `, ${type}`;
    if (head.get("Content-Length") === "0") {
      show(make("p", { class: "muted" }, "This value is empty."));
    } else if (IMAGES.test(type) || type === PDF) {
      await showBlob(entry, type, signal);
    } else {
      const [bytes, size] = await beginning(entry, storedCoding(head) !== null, signal);
      if (PLAYED.test(type)) showMedia(entry, type, bytes, size);
      else showText(bytes, size, TEXTS.test(type));
    }
  }

  /** The first bytes of the value, and how many it has: `Infinity` where that is not known. Browsers take no part of what
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
    const failed = (event) => event.currentTarget.isConnected && showText(bytes, size, false);
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

  /** Bytes of no known type are shown when they are text. A character may be cut in two at the end. */
  function showText(bytes, size, isText) {
    let text;
    try {
      const isCut = bytes.length < size;
      text = new TextDecoder("utf-8", { fatal: !isText }).decode(bytes, { stream: isCut });
    } catch {
      text = "\0";
    }
    if (!isText && text.includes("\0")) {
      show(make("p", { class: "muted" }, "No preview: this is neither text nor an image, and nothing that this browser plays."));
      return;
    }
    const parts = [make("pre", { tabindex: "0", role: "region", "aria-label": "Text of the value" }, text)];
    if (bytes.length < size) parts.push(make("p", { class: "muted" }, `The first ${Format.size(bytes.length)}${size === Infinity ? "" : ` of ${Format.size(size)}`}.`));
    show(...parts);
  }

  function show(...parts) {
    const played = $("preview-body").querySelector("audio, video");
    $("preview-body").replaceChildren(...parts);
    // Out of the document it would still play.
    played?.pause();
    played?.removeAttribute("src");
    played?.load();
  }

  function close() {
    if ($("preview").open) $("preview").close();
    fetching?.abort();
    show();
    if (address) URL.revokeObjectURL(address);
    [current, fetching, address] = [null, null, null];
  }

  async function removeCurrent() {
    const entry = current;
    close();
    await Removal.one(entry);
  }

  function renameCurrent() {
    const entry = current;
    close();
    Rename.open(entry);
  }

  $("preview").addEventListener("close", close);
  $("preview-close").addEventListener("click", close);
  $("preview-delete").addEventListener("click", removeCurrent);
  $("preview-rename").addEventListener("click", renameCurrent);
  // A click beside the dialog hits the dialog itself, and none of what it holds covers its padding.
  $("preview").addEventListener("click", (event) => {
    const box = $("preview").getBoundingClientRect();
    const isInside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (event.target === $("preview") && !isInside) close();
  });

  return { open };
})();
