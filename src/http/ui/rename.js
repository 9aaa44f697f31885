// Renaming, moving and copying: a file or a folder by its name and folder, several together into another folder, by a dialog or by
// dragging rows to a folder, of the list or of the path above it. The server does it, at once, and to a file only in the version that was
// shown. Nothing is overwritten.
"use strict";

const Rename = (() => {
  const AT_ONCE = 4;
  const TYPE = "application/x-data-server-files";

  const above = (key) => key.slice(0, key.lastIndexOf("/", key.length - 2) + 1);
  const within = (folder) => (folder ? shown(folder) : "the top folder");

  /** What it takes of `key`: a folder has names that may have to be listed. */
  const mayCopy = (key) => Rights.has("read", key) && (!key.endsWith("/") || Rights.sees(key)) && Rights.hasAny("create");
  const may = (key) => mayCopy(key) && Rights.has("delete", key);

  /** Gives a file or a folder another key, or a copy of it. Resolves once that is done; what fails is thrown, `Unchanged` where nothing was
   * changed, which `isTaken` where the key is another's. */
  async function move(entry, key, signal, isCopy = false) {
    const names = { old: shown(entry.key), copy: shown(key) };
    const headers = { Overwrite: "F", ...(entry.etag && { "If-Match": entry.etag }) };
    try {
      // A proxy takes the path of the root from the address, not from this field.
      headers.Destination = Rights.isPrefixed() ? path(key) : `/${path(key).slice(root.length)}`;
    } catch (error) {
      throw new Unchanged(error.message);
    }
    try {
      // A copy of a folder would go into one that is there.
      if (isCopy && entry.isFolder && (await Folders.isThere(key))) throw new Refused(412, "there is a folder of this name");
      await request(path(entry.key), { method: isCopy ? "COPY" : "MOVE", headers, signal });
    } catch (error) {
      const [doing, done] = isCopy ? ["Copying", "there, too"] : ["Renaming", "now"];
      if (!error.status) throw new Error(`${signal?.aborted ? `${doing} was cancelled` : "The connection broke off"}: ${names.old} may be ${names.copy} ${done}.`);
      const report = isCopy && Folders.reportOf(error.body);
      if (report) throw new Error(`${plural(report.copied, "file")} copied to ${names.copy}, ${Folders.stayed(report)}`);
      const [reason, isTaken] = await why(error, entry, isCopy ? ["copy", "copied"] : ["rename", "renamed"]);
      throw Object.assign(new Unchanged(`${reason}. Nothing was changed.`), { isTaken });
    }
  }

  /** Why nothing was changed, and whether that is because the key is another's. */
  async function why({ status, message }, entry, [act, done]) {
    if (status === 404) return ["It is gone", false];
    if (status === 405 || status === 501) return [`The server cannot ${act} it: ${message}`, false];
    if (status !== 412 || entry.isFolder) return [`It was not ${done}: ${message}`, status === 412];
    // A precondition of one of both ends.
    const isSame = await request(path(entry.key), { method: "HEAD", headers: { "If-Match": entry.etag } }).catch(() => false);
    return isSame ? ["There is a file with this name already", true] : ["Someone else has changed it meanwhile", false];
  }

  /** Copies a file or a folder to another key; beside itself under the first name with a number that is free. Resolves to the key. */
  async function copy(entry, key, signal) {
    for (let number = 1; ; number += 1) {
      const to = key === entry.key ? beside(key, number) : key;
      try {
        await move(entry, to, signal, true);
        return to;
      } catch (error) {
        if (to === key || !error.isTaken || number === 1000) throw error;
      }
    }
  }

  /** A folder that was named here stays, as one that is made here. */
  const keep = (folder) => folder && !Keys.folders().includes(folder) && Folders.keep(folder);

  function open(entry) {
    const folder = above(entry.key);
    const mayMove = may(entry.key);
    Naming.open({
      title: `${mayMove ? "Rename" : "Copy"} ${shown(entry.key)}`,
      text: "Another name, another folder, or both. Nothing is overwritten.",
      name: entry.key.slice(folder.length).replace("/", ""),
      folder,
      yes: mayMove ? "Rename" : "Copy",
      other: mayMove ? "Make a copy" : "",
      async act({ name, folder, isOther, signal }) {
        let key = folder + (entry.isFolder ? `${name.replace(/\/+$/, "")}/` : name);
        const isCopy = isOther || !mayMove;
        if (key === entry.key && !isCopy) throw new Unchanged("This is its name already.");
        try {
          if (isCopy) key = await copy(entry, key, signal);
          else await move(entry, key, signal);
          await keep(folder);
        } finally {
          settle(entry);
        }
        note(isCopy ? `${shown(entry.key)} is copied to ${shown(key)}` : `${shown(entry.key)} is now ${shown(key)}`);
      },
    });
  }

  /** Asks for the folder to move or copy these to. */
  function ask(entries) {
    const mayMove = entries.every(({ key }) => may(key));
    Naming.open({
      title: `${mayMove ? "Move" : "Copy"} ${things(entries)}`,
      text: "They keep their names. Nothing is overwritten.",
      folder: Keys.place().folder,
      yes: mayMove ? "Move" : "Copy",
      other: mayMove ? "Copy" : "",
      act: ({ folder, isOther, signal }) => several(entries, folder, signal, isOther || !mayMove),
    });
  }

  /** Whether it is elsewhere, and can be in `folder`: one that is no folder of its own. */
  const goes = ({ key, isFolder }, folder) => above(key) !== folder && !(isFolder && folder.startsWith(key));

  /** Moves or copies these files and folders into `folder`, and says what became of them. */
  async function several(entries, folder, signal, isCopy = false) {
    const ahead = entries.filter((entry) => goes(entry, folder)).reverse();
    if (ahead.length === 0) throw new Unchanged(entries.every(({ key }) => above(key) === folder) ? "They are in this folder already." : "A folder does not go into itself.");
    const [moved, stayed, faults] = [[], [], []];
    const work = async () => {
      for (let entry = ahead.pop(); entry && !signal?.aborted; entry = ahead.pop()) {
        try {
          await move(entry, folder + entry.key.slice(above(entry.key).length), signal, isCopy);
          moved.push(entry);
        } catch (error) {
          stayed.push(entry);
          faults.push(`${shown(entry.key)}: ${error.message}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (moved.length > 0) await keep(folder);
    settle(entries.find((entry) => entry.isFolder) ?? entries[0]);
    const done = isCopy ? "copied" : "moved";
    const parts = [`${things(moved)} ${done} to ${within(folder)}.`];
    if (stayed.length > 0) parts.push(`${things(stayed)} not ${done}: ${faults.slice(0, 5).join(" ")}`);
    if (ahead.length > 0) parts.push(`Cancelled: ${things(ahead)} not ${done}.`);
    note(parts.join(" "), parts.length > 1);
  }

  /** No change tells of an empty folder. */
  function settle({ isFolder }) {
    if (isFolder || !Live.isLive()) Keys.refresh();
  }

  /** What is dragged: all that is selected, if the row is, else what it has. */
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
    return folder !== null && Rights.hasIn("create", folder) && dragged.some((entry) => goes(entry, folder)) ? link : null;
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

  return { open, ask, may, mayCopy };
})();
