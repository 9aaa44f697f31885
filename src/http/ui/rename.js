// Renaming and moving: a file or a folder by its name and folder, several files into another folder, by a dialog or by dragging
// rows to a folder, of the list or of the path above it. The server does it, at once, and to a file only in the version that was
// shown. Nothing is overwritten.
"use strict";

const Rename = (() => {
  const AT_ONCE = 4;
  const TYPE = "application/x-data-server-files";

  const above = (key) => key.slice(0, key.lastIndexOf("/", key.length - 2) + 1);
  const within = (folder) => (folder ? shown(folder) : "the top folder");

  /** What it takes of `key`: a folder is moved with names that may have to be listed. */
  const may = (key) => ["read", "delete", ...(key.endsWith("/") ? ["list"] : [])].every((right) => Rights.has(right, key)) && Rights.hasAny("create");

  /** Gives a file or a folder another key. Resolves once that is done; what fails is thrown, `Unchanged` where nothing was changed. */
  async function move(entry, key, signal) {
    const names = { old: shown(entry.key), copy: shown(key) };
    const headers = { Overwrite: "F", ...(entry.etag && { "If-Match": entry.etag }) };
    try {
      // A proxy takes the path of the root from the address, not from this field.
      headers.Destination = `/${path(key).slice(root.length)}`;
    } catch (error) {
      throw new Unchanged(error.message);
    }
    try {
      await request(path(entry.key), { method: "MOVE", headers, signal });
    } catch (error) {
      if (!error.status) throw new Error(`${signal?.aborted ? "Renaming was cancelled" : "The connection broke off"}: ${names.old} may be ${names.copy} now.`);
      throw new Unchanged(`${await why(error, entry)}. Nothing was changed.`);
    }
  }

  async function why({ status, message }, entry) {
    if (status === 404) return "It is gone";
    if (status === 405 || status === 501) return `The server cannot rename it: ${message}`;
    if (status !== 412 || entry.isFolder) return `It was not renamed: ${message}`;
    // A precondition of one of both ends.
    const isSame = await request(path(entry.key), { method: "HEAD", headers: { "If-Match": entry.etag } }).catch(() => false);
    return isSame ? "There is a file with this name already" : "Someone else has changed it meanwhile";
  }

  function open(entry) {
    const folder = above(entry.key);
    Naming.open({
      title: `Rename ${shown(entry.key)}`,
      text: "Another name, another folder, or both. Nothing is overwritten.",
      name: entry.key.slice(folder.length).replace("/", ""),
      folder,
      yes: "Rename",
      async act({ name, folder, signal }) {
        const key = folder + (entry.isFolder ? `${name.replace(/\/+$/, "")}/` : name);
        if (key === entry.key) throw new Unchanged("This is its name already.");
        try {
          await move(entry, key, signal);
        } finally {
          settle(entry);
        }
        note(`${shown(entry.key)} is now ${shown(key)}`);
      },
    });
  }

  /** Asks for the folder to move these files to. */
  function ask(entries) {
    Naming.open({
      title: `Move ${plural(entries.length, "file")}`,
      text: "They keep their names. Nothing is overwritten.",
      folder: Keys.place().folder,
      yes: "Move",
      act: ({ folder, signal }) => several(entries, folder, signal),
    });
  }

  /** Moves these files, or this folder, into `folder`, and says what became of them. */
  async function several(entries, folder, signal) {
    const ahead = entries.filter(({ key }) => above(key) !== folder).reverse();
    const all = ahead.length;
    if (all === 0) throw new Unchanged("They are in this folder already.");
    const faults = [];
    const work = async () => {
      for (let entry = ahead.pop(); entry && !signal?.aborted; entry = ahead.pop()) {
        try {
          await move(entry, folder + entry.key.slice(above(entry.key).length), signal);
        } catch (error) {
          faults.push(`${shown(entry.key)}: ${error.message}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    settle(entries[0]);
    const done = all - faults.length - ahead.length;
    const some = (count) => plural(count, entries[0].isFolder ? "folder" : "file");
    const parts = [`${some(done)} moved to ${within(folder)}.`];
    if (faults.length > 0) parts.push(`${some(faults.length)} not moved: ${faults.slice(0, 5).join(" ")}`);
    if (ahead.length > 0) parts.push(`Cancelled: ${some(ahead.length)} not moved.`);
    note(parts.join(" "), parts.length > 1);
  }

  /** No change tells of an empty folder. */
  function settle({ isFolder }) {
    if (isFolder || !Live.isLive()) Keys.refresh();
  }

  /** What is dragged: the files that are selected, if the row is one of them, else its own, or its folder. */
  let dragged = [];

  $("rows").addEventListener("dragstart", (event) => {
    const { key, folder } = event.target.closest("tr:not(.up, [aria-busy=true])")?.querySelector(".key")?.dataset ?? {};
    const row = key ?? folder;
    dragged = row === undefined ? [] : Picked.with(row).filter((entry) => may(entry.key));
    if (dragged.length === 0) return;
    event.dataTransfer.setData(TYPE, "");
    event.dataTransfer.effectAllowed = "copyLink move";
  });

  /** The link of the folder that the pointer is over, where what is dragged may go. */
  function target(event) {
    const link = dragged.length > 0 && event.target.closest?.("#rows tr, #crumbs li")?.querySelector("a[data-folder]");
    const folder = link ? link.dataset.folder : null;
    const goes = ({ key, isFolder }) => above(key) !== folder && !(isFolder && folder.startsWith(key));
    return folder !== null && Rights.hasIn("create", folder) && dragged.some(goes) ? link : null;
  }

  function mark(link) {
    for (const old of document.querySelectorAll(".target")) if (old !== link) old.classList.remove("target");
    link?.classList.add("target");
  }

  document.addEventListener("dragover", (event) => {
    const link = target(event);
    mark(link);
    if (!link) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
  });
  document.addEventListener("drop", (event) => {
    const link = target(event);
    mark(null);
    if (!link) return;
    event.preventDefault();
    several(dragged, link.dataset.folder);
    dragged = [];
  });
  document.addEventListener("dragend", () => {
    mark(null);
    dragged = [];
  });

  return { open, ask, may };
})();
