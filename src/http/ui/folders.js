// What is done with folders: a new one is made, and one is deleted with all that is in it, after a question that says how
// much that is. How far that is, is shown meanwhile, and the page is not left unasked; what stays is told, with the reason.
"use strict";

const Folders = (() => {
  const STEP = 10_000;
  const MOST = 100_000;
  /** So many of those that stay are named. */
  const NAMED = 5;
  /** The folders that are asked about or deleted, and whether it is under way. */
  const going = new Map();

  function begin() {
    const { folder } = Keys.place();
    Naming.open({
      title: `New folder${folder && ` in ${shown(folder)}`}`,
      text: "It stays while it is empty.",
      name: "",
      yes: "Make",
      async act({ name, signal }) {
        const key = `${folder}${name.replace(/\/+$/, "")}/`;
        try {
          await request(path(key), { method: "MKCOL", signal });
        } catch (error) {
          if (error.status === 0 || signal.aborted) throw new Error(`Whether ${shown(key)} was made is not known: the connection broke off.`);
          throw new Unchanged(`It was not made: ${error.message}.`);
        }
        await Keys.load({ isQuiet: true });
        note(`${shown(key)} is made`);
      },
    });
  }

  /** Has a folder stay when it is empty: it is made, or what has made it for a value is forgotten. */
  async function keep(key) {
    try {
      await request(path(key), { method: "MKCOL" });
      Keys.refresh();
    } catch (error) {
      const above = Place.above(key);
      if (error.status === 409 && above) {
        await keep(above);
        await request(path(key), { method: "MKCOL" }).catch(() => {});
      } else if (![405, 501].includes(error.status)) note(`${shown(key)} was not made: ${error.message}`, true); // it is there, or the store has none
    }
  }

  /** Whether there is a folder of this name, as far as this client may know. */
  const isThere = (key) => request(`${path(key)}?archive=tar`, { method: "HEAD" }).then(() => true, () => false);

  /** How many files are in a folder and below it, and their bytes; of very many, of the first. */
  async function measure(folder) {
    let [files, bytes, after] = [0, 0, ""];
    while (after !== null && files < MOST) {
      const page = await list(folder, { after, limit: STEP });
      files += page.keys.length;
      bytes += page.keys.reduce((sum, { size }) => sum + size, 0);
      after = page.next;
    }
    return { files, bytes, isMore: after !== null };
  }

  const files = ({ files, isMore }) => `${isMore ? "more than " : ""}${plural(files, "file")}`;

  async function remove(key) {
    if (going.has(key)) return;
    going.set(key, false);
    const name = shown(key);
    say(`Counting the files of ${name}`);
    try {
      const measured = await measure(key);
      const said = files(measured);
      const { isYes } = await ask({
        title: `Delete ${name} with all that is in it?`,
        text: `${said[0].toUpperCase()}${said.slice(1)}, ${Format.size(measured.bytes)}. This cannot be undone.`,
        yes: "Delete",
      });
      if (!isYes) return;
      const { text, isBad } = await removeNow(key, measured);
      note(text, isBad);
    } catch (error) {
      note(`${name} was not deleted: ${error.message}`, true);
    } finally {
      going.delete(key);
    }
  }

  /** Deletes a folder, which was measured so. Resolves to what became of it. */
  async function removeNow(key, measured) {
    going.set(key, true);
    Rows.outline(key);
    say(`Deleting ${shown(key)}`);
    const end = follow(key, files(measured));
    const answer = await fetch(absolute(path(key)), { method: "DELETE", headers: { Depth: "infinity" }, cache: "no-store" }).catch(() => null);
    const text = (await answer?.text().catch(() => "")) ?? "";
    end();
    going.delete(key);
    Rows.outline(key);
    Keys.load({ isQuiet: true });
    return fate(shown(key), answer?.status ?? 0, text);
  }

  /** Shows how many of all files of a folder are gone, as the server tells of each. Returns what ends that. */
  function follow(key, all) {
    const box = note(`Deleting ${shown(key)}: ${all}`, false, true);
    box.setAttribute("aria-live", "off");
    const socket = Rights.hasBelow("watch", key) ? Live.open(key) : null;
    let gone = 0;
    const hear = ({ data }) => {
      if (JSON.parse(data).op !== "delete") return;
      gone += 1;
      box.firstElementChild.textContent = `Deleting ${shown(key)}: ${Format.exact.format(gone)} of ${all}`;
    };
    socket?.addEventListener("message", hear);
    return () => {
      socket?.close();
      box.remove();
    };
  }

  /** What became of a folder, in words, and whether some of it stayed. */
  function fate(name, status, text) {
    const report = reportOf(text);
    if (status === 404) return { text: `${name} is gone already` };
    if (status === 200 && report) return { text: `${name} is deleted, with ${plural(report.removed, "file")}` };
    if (!report) return { text: `${name} was not deleted, or not all of it: ${inWords(text.trim().slice(0, 500)) || "the connection broke off"}`, isBad: true };
    return { text: `${name} is still there. ${plural(report.removed, "file")} deleted, ${stayed(report)}`, isBad: true };
  }

  function stayed(report) {
    const more = report.stayed - NAMED;
    const some = report.why.slice(0, NAMED).map((it) => `${shown(it.name)} (${inWords(it.reason)})`);
    return `${report.stayed} stayed: ${some.join(", ")}${more > 0 ? ` and ${plural(more, "other")}` : ""}`;
  }

  /** What the server says of a folder of which some stayed, or `null`. */
  function reportOf(text) {
    try {
      const report = JSON.parse(text);
      return Array.isArray(report.why) ? report : null;
    } catch {
      return null;
    }
  }

  /** Offers what may be done in `folder`. */
  function offer(folder) {
    $("new-folder").hidden = !Rights.hasIn("create", folder);
  }

  $("new-folder").addEventListener("click", begin);
  window.addEventListener("beforeunload", (event) => [...going.values()].includes(true) && event.preventDefault());

  return { offer, keep, isThere, reportOf, stayed, measure, files, remove, removeNow, isGoing: (key) => going.get(key) ?? false };
})();
