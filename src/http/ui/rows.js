// The rows of the table: one for each file and each folder of the page. Rows that stay keep their elements, so that the
// focus stays too. What is shown, and in which order, is said by `keys.js`; `keyboard.js` moves in them: the name is the one
// stop of Tab in a row.
"use strict";

const Rows = (() => {
  const MARKED = 10;
  const ACT = { class: "button act", tabindex: -1 };
  /** The row of each key and folder. */
  const rows = new Map();
  /** The folder that they are in; `null` while the rows are those that came with the document. */
  let folder = null;
  /** The rows that are new, or of another version now. */
  const changed = [];

  /** Shows these entries, in this order, and no others. A row that changes flashes, and with `marksNew` a new one too. */
  function show(place, entries, { marksNew = false } = {}) {
    const from = folder;
    const hadFocus = $("keys-view").contains(document.activeElement) && document.activeElement !== $("find");
    if (folder !== place.folder) begin(place.folder);
    const kept = new Set(entries.map((entry) => entry.key));
    for (const [key, row] of rows) if (!kept.has(key)) drop(key, row);
    const focused = document.activeElement;
    let next = $("rows").querySelector(":scope > :not(.up)");
    for (const entry of entries) {
      const row = draw(entry, marksNew);
      if (row === next) next = next.nextElementSibling;
      else $("rows").insertBefore(row, next);
    }
    mark(changed.splice(0));
    if (focused !== document.activeElement) focused.focus({ preventScroll: true }); // its row was moved
    if (hadFocus && from !== null && from !== folder) arrive(from);
  }

  function begin(next) {
    folder = next;
    rows.clear();
    const above = Place.above(folder);
    $("rows").replaceChildren(...(above === null ? [] : [makeRow(above, Place.link(above, { class: "key", "aria-label": "../, the folder above" }, "../"))]));
    $("rows").firstElementChild?.classList.add("up");
  }

  /** After a step to another folder the focus is on the one that was left, if it is here, else on the first row. */
  function arrive(from) {
    const left = [...rows.keys()].find((key) => key.endsWith("/") && from.startsWith(key));
    (rows.get(left) ?? $("rows").firstElementChild)?.querySelector(".key").focus();
  }

  /** The row of `entry`, made or brought up to date. */
  function draw(entry, marksNew) {
    const old = rows.get(entry.key);
    if (old && (entry.isFolder || old.dataset.version === version(entry))) return old;
    const row = old ?? (entry.isFolder ? folderRow(entry) : fileRow(entry));
    rows.set(entry.key, row);
    if (entry.isFolder) outline(entry.key);
    else fill(row, entry);
    if (old || marksNew) changed.push(row);
    return row;
  }

  /** A date may be told later than the version that it is of. */
  const version = ({ etag, date = "" }) => `${etag} ${date}`;

  function fill(row, entry) {
    row.dataset.version = version(entry);
    const date = new Date(entry.date ?? entry.modified);
    const time = make("time", { datetime: date.toISOString(), title: Format.full.format(date) }, Format.ago(date));
    row.querySelector(".size").textContent = Format.size(entry.size);
    row.querySelector(".size").title = Format.bytes(entry.size);
    row.querySelector(".time").replaceChildren(time);
  }

  /** Shows whether a folder is being deleted: then nothing else is done to it. */
  function outline(key) {
    const row = rows.get(key);
    if (!row) return;
    const isGoing = Folders.isGoing(key);
    const actions = row.querySelector(".actions");
    if (isGoing && actions.contains(document.activeElement)) row.querySelector(".key").focus();
    actions.inert = isGoing;
    row.setAttribute("aria-busy", isGoing);
    row.querySelector(".time").textContent = isGoing ? "being deleted" : "";
  }

  // What was "just now" is so no longer.
  setInterval(() => {
    for (const time of $("rows").querySelectorAll("time[title]")) time.textContent = Format.ago(new Date(time.dateTime));
  }, 30_000);

  function folderRow({ key }) {
    const name = shown(key.slice(folder.length));
    const actions = [];
    if (Rights.mayDownload(key)) actions.push(make("a", { ...ACT, href: zipOf(key), "aria-label": `Download ${name} as zip`, title: "Download as zip" }, icon("download")));
    if (Rename.mayCopy(key)) actions.push(renames(name, { key, isFolder: true }));
    if (Rights.mayDelete(key)) actions.push(deletes(name, () => Folders.remove(key)));
    return picked(key, name, makeRow(key, Place.link(key, { class: "key" }, name), ...actions));
  }

  /** The name leads to the file itself, for another tab and for those who copy the link; a click looks at it here. */
  function fileRow({ key }) {
    const name = shown(key.slice(folder.length));
    const open = make("a", { class: "key", href: path(key), "data-key": key }, name);
    const actions = [];
    if (Rights.mayDownload(key)) actions.push(download(key, name));
    if (Rename.mayCopy(key)) actions.push(renames(name, { key }));
    if (Rights.mayDelete(key)) actions.push(deletes(name, () => Removal.one(Keys.entry(key))));
    return picked(key, name, makeRow(key, open, ...actions));
  }

  /** The row, which can be selected where something can be done with it, and dragged where it can be moved. */
  function picked(key, name, row) {
    if (Picked.takes(key)) row.firstElementChild.prepend(Picked.box(key, name));
    row.draggable = Rename.may(key);
    row.firstElementChild.setAttribute("aria-label", name); // the name of the box is not the row's
    return row;
  }

  function download(key, name) {
    return make("a", { ...ACT, href: path(key), download: key.split("/").at(-1), "aria-label": `Download ${name}`, title: "Download" }, icon("download"));
  }

  function renames(name, { key, isFolder }) {
    const click = () => Rename.open(isFolder ? { key, isFolder } : Keys.entry(key));
    return make("button", { type: "button", class: "act", tabindex: -1, "aria-label": `Rename, move or copy ${name}`, "aria-keyshortcuts": "F2", title: "Rename, move or copy", click }, icon("rename"));
  }

  function deletes(name, click) {
    return make("button", { type: "button", class: "act danger", tabindex: -1, "aria-label": `Delete ${name}`, "aria-keyshortcuts": "Delete", title: "Delete", click }, icon("delete"));
  }

  function makeRow(key, name, ...actions) {
    return make(
      "tr",
      { role: "row", animationend: (event) => event.currentTarget.classList.remove("changed") },
      make("th", { role: "rowheader", scope: "row" }, name),
      make("td", { role: "cell", class: "size" }),
      make("td", { role: "cell", class: "time" }),
      make("td", { role: "cell", class: "actions" }, ...actions),
    );
  }

  /** Begins the animation of these rows anew, which takes one layout for all of them. Of many, each picture of the animation
   * would take longer than it lasts, so they have none. */
  function mark(rows) {
    if (rows.length === 0 || rows.length > MARKED) return;
    for (const row of rows) row.classList.remove("changed");
    void $("rows").offsetWidth;
    for (const row of rows) row.classList.add("changed");
  }

  /** Removes a row; the focus, if it was there, goes to the row that takes its place. */
  function drop(key, row) {
    const hadFocus = row.contains(document.activeElement);
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    rows.delete(key);
    if (hadFocus) (next?.querySelector(".key") ?? $("find")).focus();
  }

  return { show, outline };
})();
