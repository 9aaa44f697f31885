// A look at a value: the beginning of a text, or an image. Both are fetched and shown by this page, as text or through a
// blob: a value is never opened as a document, which the server would not let act anyway.
"use strict";

const Preview = (() => {
  const BEGINNING = 64 << 10;
  const LARGEST_IMAGE = 32 << 20;
  const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon|vnd\.microsoft\.icon)$/;
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
    const range = entry.size > 0 ? { Range: `bytes=0-${BEGINNING - 1}` } : {};
    const answer = await request(path(entry.key), { headers: range, signal });
    const type = (answer.headers.get("Content-Type") ?? "").split(";")[0].trim().toLowerCase();
    const size = Number(answer.headers.get("Content-Range")?.split("/")[1] ?? entry.size);
    $("preview-facts").textContent += `, ${type}`;
    if (size === 0) {
      await answer.body?.cancel();
      show(make("p", { class: "muted" }, "This value is empty."));
    } else if (IMAGES.test(type)) {
      await answer.body?.cancel();
      await showImage(entry, size, type, signal);
    } else {
      showText(new Uint8Array(await answer.arrayBuffer()).subarray(0, BEGINNING), size, TEXTS.test(type));
    }
  }

  async function showImage(entry, size, type, signal) {
    if (size > LARGEST_IMAGE) {
      show(make("p", {}, "This image is too large for a preview: download it."));
      return;
    }
    const answer = await request(path(entry.key), { signal });
    const blob = new Blob([await answer.blob()], { type });
    signal.throwIfAborted();
    address = URL.createObjectURL(blob);
    const failed = () => show(make("p", {}, "This image cannot be shown."));
    show(make("img", { src: address, alt: `The image ${shown(entry.key)}`, error: failed }));
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
      show(make("p", { class: "muted" }, "No preview: this is neither text nor an image."));
      return;
    }
    const parts = [make("pre", { tabindex: "0", role: "region", "aria-label": "Text of the value" }, text)];
    if (bytes.length < size) parts.push(make("p", { class: "muted" }, `The first ${Format.size(bytes.length)} of ${Format.size(size)}.`));
    show(...parts);
  }

  function show(...parts) {
    $("preview-body").replaceChildren(...parts);
  }

  function close() {
    if ($("preview").open) $("preview").close();
    fetching?.abort();
    if (address) URL.revokeObjectURL(address);
    [current, fetching, address] = [null, null, null];
  }

  async function removeCurrent() {
    const entry = current;
    close();
    await Keys.removeAsked(entry);
  }

  $("preview").addEventListener("close", close);
  $("preview-close").addEventListener("click", close);
  $("preview-delete").addEventListener("click", removeCurrent);
  // A click beside the dialog hits the dialog itself, and none of what it holds covers its padding.
  $("preview").addEventListener("click", (event) => {
    const box = $("preview").getBoundingClientRect();
    const isInside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (event.target === $("preview") && !isInside) close();
  });

  return { open };
})();
