// The keys of the page that are selected, and what is done to all of them. A key that leaves the page is selected no more.
"use strict";

const Picked = (() => {
  const picked = new Set();
  /** The keys of the page that may be deleted: there is nothing else to do to several. */
  let keys = [];
  let isBusy = false;

  const all = make("input", { type: "checkbox", id: "pick-all", class: "pick", "aria-label": "Select all keys of this page", change: pickAll });
  all.hidden = !Rights.hasAny("delete");
  document.querySelector("#keys thead [data-column=key]").prepend(all);

  /** What selects a key, for its row. */
  function box(key, name) {
    const box = make("input", { type: "checkbox", class: "pick", "aria-label": `Select ${name}` });
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
    keys = entries.filter((entry) => !entry.isFolder && Rights.has("delete", entry.key)).map((entry) => entry.key);
    const present = new Set(keys);
    for (const key of picked) if (!present.has(key)) picked.delete(key);
    outline();
  }

  function outline() {
    all.disabled = keys.length === 0;
    all.checked = picked.size > 0 && picked.size === keys.length;
    all.indeterminate = picked.size > 0 && picked.size < keys.length;
    if (isBusy) return;
    const hadFocus = $("picked").contains(document.activeElement);
    $("picked").hidden = picked.size === 0;
    $("picked-count").textContent = `${plural(picked.size, "key")} selected`;
    if (hadFocus && picked.size === 0) (document.querySelector("#rows .key") ?? $("find")).focus();
  }

  async function remove() {
    const entries = [...picked].map(Keys.entry).filter((entry) => entry);
    begin(true);
    await Removal.several(entries, (done) => {
      $("picked-count").textContent = `Deleting: ${done} of ${Format.exact.format(entries.length)}`;
    });
    begin(false);
  }

  function begin(busy) {
    isBusy = busy;
    for (const id of ["picked-none", "picked-delete"]) $(id).setAttribute("aria-disabled", busy);
    outline();
  }

  $("picked-none").addEventListener("click", () => !isBusy && none());
  $("picked-delete").addEventListener("click", () => !isBusy && remove());

  return { box, keep };
})();
