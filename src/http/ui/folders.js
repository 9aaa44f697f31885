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

  /** How many files are in a folder and below it, and their bytes, in words; of very many, of the first. */
  async function measure(folder) {
    let [files, bytes, after] = [0, 0, ""];
    while (after !== null && files < MOST) {
      const page = await list(folder, { after, limit: STEP });
      files += page.keys.length;
      bytes += page.keys.reduce((sum, { size }) => sum + size, 0);
      after = page.next;
    }
    return [`${after === null ? "" : "more than "}${plural(files, "file")}`, Format.size(bytes)];
  }

  async function remove(key) {
    if (going.has(key)) return;
    going.set(key, false);
    const name = shown(key);
    say(`Counting the files of ${name}`);
    try {
      const [files, size] = await measure(key);
      const { isYes } = await ask({
        title: `Delete ${name} with all that is in it?`,
        text: `${files[0].toUpperCase()}${files.slice(1)}, ${size}. This cannot be undone.`,
        yes: "Delete",
      });
      if (isYes) await removeNow(key, files);
    } catch (error) {
      note(`${name} was not deleted: ${error.message}`, true);
    } finally {
      going.delete(key);
      Rows.outline(key);
    }
  }

  async function removeNow(key, files) {
    going.set(key, true);
    Rows.outline(key);
    say(`Deleting ${shown(key)}`);
    const end = follow(key, files);
    const answer = await fetch(absolute(path(key)), { method: "DELETE", headers: { Depth: "infinity" }, cache: "no-store" }).catch(() => null);
    const text = (await answer?.text().catch(() => "")) ?? "";
    end();
    tell(shown(key), answer?.status ?? 0, text);
    Keys.load({ isQuiet: true });
  }

  /** Shows how many of these `files` of a folder are gone, as the server tells of each. Returns what ends that. */
  function follow(key, files) {
    const box = note(`Deleting ${shown(key)}: ${files}`, false, true);
    box.setAttribute("aria-live", "off");
    const socket = Rights.hasBelow("watch", key) ? Live.open(key) : null;
    let gone = 0;
    const hear = ({ data }) => {
      if (JSON.parse(data).op !== "delete") return;
      gone += 1;
      box.firstElementChild.textContent = `Deleting ${shown(key)}: ${Format.exact.format(gone)} of ${files}`;
    };
    socket?.addEventListener("message", hear);
    return () => {
      socket?.close();
      box.remove();
    };
  }

  /** Says what became of a folder. */
  function tell(name, status, text) {
    const report = reportOf(text);
    if (status === 404) return note(`${name} is gone already`);
    if (status === 200 && report) return note(`${name} is deleted, with ${plural(report.removed, "file")}`);
    if (!report) return note(`${name} was not deleted, or not all of it: ${text.trim().slice(0, 500) || "the connection broke off"}`, true);
    const more = report.stayed - NAMED;
    const some = report.why.slice(0, NAMED).map((it) => `${shown(it.name)} (${it.reason})`);
    note(`${name} is still there. ${plural(report.removed, "file")} deleted, ${report.stayed} stayed: ${some.join(", ")}${more > 0 ? ` and ${plural(more, "other")}` : ""}`, true);
  }

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

  return { offer, remove, isGoing: (key) => going.get(key) ?? false };
})();
