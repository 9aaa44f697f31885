// The files of the page that are selected, and what is done to all of them: they are deleted, moved, or downloaded as one zip. A
// file that leaves the page is selected no more.
"use strict";

const Picked = (() => {
  /** The longest address in bytes: the head of a request has at most 64 KiB. */
  const LONGEST = 60_000;
  /** The most names that the server takes. */
  const MOST = 1000;

  const picked = new Set();
  /** The keys of the page with which something can be done. */
  let keys = [];
  let isBusy = false;

  const all = make("input", { type: "checkbox", id: "pick-all", class: "pick", "aria-label": "Select all files of this page", change: pickAll });
  all.hidden = !Rights.hasAny("delete") && !Rights.hasAny("read");
  document.querySelector("#keys thead [data-column=key]").prepend(all);

  /** What selects a key, for its row. */
  function box(key, name) {
    const box = make("input", { type: "checkbox", class: "pick", tabindex: -1, "aria-label": `Select ${name}` });
    box.addEventListener("change", () => {
      if (box.checked) picked.add(key);
      else picked.delete(key);
      outline();
    });
    return box;
  }

  function pickAll() {
    for (const key of keys) {
      if (all.checked) picked.add(key);
      else picked.delete(key);
    }
    check();
  }

  function none() {
    picked.clear();
    check();
  }

  function check() {
    for (const box of $("rows").querySelectorAll(".pick")) box.checked = all.checked && picked.size > 0;
    outline();
  }

  /** The page has these entries now. */
  function keep(entries) {
    keys = entries.filter((entry) => !entry.isFolder && (may("delete", entry.key) || may("read", entry.key))).map((entry) => entry.key);
    const present = new Set(keys);
    for (const key of picked) if (!present.has(key)) picked.delete(key);
    outline();
  }

  const may = (right, key) => Rights.has(right, key);
  const mayAll = (right) => [...picked].every((key) => may(right, key));

  function outline() {
    all.disabled = keys.length === 0;
    all.checked = picked.size > 0 && picked.size === keys.length;
    all.indeterminate = picked.size > 0 && picked.size < keys.length;
    if (isBusy) return;
    const hadFocus = $("picked").contains(document.activeElement);
    $("picked").hidden = picked.size === 0;
    $("picked-delete").hidden = !mayAll("delete");
    $("picked-download").hidden = !mayAll("read");
    $("picked-move").hidden = ![...picked].every(Rename.may);
    $("picked-count").textContent = `${plural(picked.size, "file")} selected`;
    if (hadFocus && picked.size === 0) (document.querySelector("#rows .key") ?? $("find")).focus();
  }

  const entries = () => [...picked].map(Keys.entry).filter((entry) => entry);

  async function remove() {
    if (isBusy || !mayAll("delete")) return;
    const some = entries();
    begin(true);
    await Removal.several(some, (done) => {
      $("picked-count").textContent = `Deleting: ${done} of ${Format.exact.format(some.length)}`;
    });
    begin(false);
  }

  /** Downloads one file as it is, and several as one zip. */
  function download() {
    const keys = entries().map(({ key }) => key);
    const { folder } = Keys.place();
    const href = keys.length === 1 ? path(keys[0]) : zipOf(folder, keys.map((key) => key.slice(folder.length)));
    if (href.length > LONGEST || keys.length > MOST) {
      note(`The names of ${plural(keys.length, "file")} are too much for one request: select fewer of them, or download the whole folder as zip.`, true);
      return;
    }
    make("a", { href, download: keys.length === 1 ? keys[0].split("/").at(-1) : "" }).click();
  }

  function begin(busy) {
    isBusy = busy;
    for (const id of ["picked-none", "picked-move", "picked-download", "picked-delete"]) $(id).setAttribute("aria-disabled", busy);
    outline();
  }

  $("picked-none").addEventListener("click", () => !isBusy && none());
  $("picked-move").addEventListener("click", () => !isBusy && Rename.ask(entries()));
  $("picked-delete").addEventListener("click", remove);
  $("picked-download").addEventListener("click", () => !isBusy && download());

  /** The files that are selected, with that of `key`; else it alone. */
  const together = (key) => (picked.has(key) ? entries() : [Keys.entry(key)].filter((entry) => entry));

  return { box, keep, remove, with: together, isAny: () => picked.size > 0 };
})();
