// The files and folders of the page that are selected, one by one, from one to another, or all; and what is done to all of them:
// they are deleted, moved, or downloaded as one zip. What leaves the page is selected no more.
"use strict";

const Picked = (() => {
  /** The longest address in bytes: the head of a request has at most 64 KiB. */
  const LONGEST = 60_000;
  /** The most names that the server takes. */
  const MOST = 1000;

  const picked = new Set();
  /** The keys of the page with which something can be done, in its order. */
  let keys = [];
  /** The range that was selected last: where it began, and where it ends now. */
  let [anchor, end] = [null, null];
  let isBusy = false;

  const all = make("input", { type: "checkbox", id: "pick-all", class: "pick", "aria-label": "Select all of this page", change: () => pickAll(all.checked) });
  all.hidden = !Rights.hasAny("delete") && !Rights.hasAny("read");
  document.querySelector("#keys thead [data-column=key]").prepend(all);

  /** What selects a key, for its row. */
  function box(key, name) {
    const pick = ({ currentTarget, shiftKey }) => {
      if (shiftKey) return extend(key);
      if (currentTarget.checked) picked.add(key);
      else picked.delete(key);
      [anchor, end] = [key, key];
      outline();
    };
    return make("input", { type: "checkbox", class: "pick", tabindex: -1, value: key, "aria-label": `Select ${name}`, click: pick });
  }

  /** Selects from where a range began, or else from this key of the page, to that one, in place of the range before. */
  function extend(to, from = to) {
    if (!keys.includes(anchor) || (from !== to && from !== end)) [anchor, end] = [from, from];
    const range = (a, b) => keys.slice(Math.min(a, b), Math.max(a, b) + 1);
    const [begun, ended, next] = [anchor, end, to].map((key) => keys.indexOf(key));
    if (next < 0) return;
    if (ended >= 0) for (const key of range(begun, ended)) picked.delete(key);
    for (const key of range(begun, next)) picked.add(key);
    end = to;
    check();
  }

  function pickAll(isPicked) {
    picked.clear();
    [anchor, end] = [null, null];
    if (isPicked) for (const key of keys) picked.add(key);
    check();
  }

  function check() {
    for (const box of $("rows").querySelectorAll(".pick")) box.checked = picked.has(box.value);
    outline();
  }

  /** The page has these entries now. */
  function keep(entries) {
    keys = entries.map((entry) => entry.key).filter(takes);
    const present = new Set(keys);
    for (const key of picked) if (!present.has(key)) picked.delete(key);
    outline();
  }

  const takes = (key) => [Rights.mayDownload, Rights.mayDelete, Rename.mayCopy].some((may) => may(key));
  const mayAll = (may) => [...picked].every((key) => may(key));

  function outline() {
    all.disabled = keys.length === 0;
    all.checked = picked.size > 0 && picked.size === keys.length;
    all.indeterminate = picked.size > 0 && picked.size < keys.length;
    if (isBusy) return;
    const hadFocus = $("picked").contains(document.activeElement);
    $("picked").hidden = picked.size === 0;
    $("picked-delete").hidden = !mayAll(Rights.mayDelete);
    $("picked-download").hidden = !mayAll(Rights.mayDownload);
    $("picked-move").hidden = !mayAll(Rename.mayCopy);
    $("picked-count").textContent = `${things(entries())} selected`;
    if (hadFocus && picked.size === 0) (document.querySelector("#rows .key") ?? $("find")).focus();
  }

  const entries = () => [...picked].map(Keys.entry).filter((entry) => entry && !Folders.isGoing(entry.key));

  async function remove() {
    const some = entries();
    if (isBusy || some.length === 0 || !mayAll(Rights.mayDelete)) return;
    begin(true);
    await Removal.several(some, (done) => {
      $("picked-count").textContent = `Deleting: ${done} of ${Format.exact.format(some.length)}`;
    });
    begin(false);
  }

  /** Downloads one file as it is, and all else as one zip. */
  function download() {
    const keys = entries().map(({ key }) => key);
    const { folder } = Keys.place();
    const isFile = keys.length === 1 && !keys[0].endsWith("/");
    const href = isFile ? path(keys[0]) : keys.length === 1 ? zipOf(keys[0]) : zipOf(folder, keys.map((key) => key.slice(folder.length)));
    if (href.length > LONGEST || keys.length > MOST) {
      note(`The names of ${things(entries())} are too much for one request: select fewer of them, or download the whole folder as zip.`, true);
      return;
    }
    make("a", { href, download: isFile ? keys[0].split("/").at(-1) : "" }).click();
  }

  function begin(busy) {
    isBusy = busy;
    for (const id of ["picked-none", "picked-move", "picked-download", "picked-delete"]) $(id).setAttribute("aria-disabled", busy);
    outline();
  }

  $("picked-none").addEventListener("click", () => !isBusy && pickAll(false));
  $("picked-move").addEventListener("click", () => !isBusy && Rename.ask(entries()));
  $("picked-delete").addEventListener("click", remove);
  $("picked-download").addEventListener("click", () => !isBusy && download());

  /** What is selected, if `key` is; else it alone. */
  const together = (key) => (picked.has(key) ? entries() : [Keys.entry(key)].filter((entry) => entry));

  return { takes, box, keep, extend, pickAll, remove, with: together, isAny: () => picked.size > 0 };
})();
