// Deleting: one file, or several with folders, after one question. A file is deleted only as the version that was shown, so what another
// client has stored meanwhile stays, and is reported.
"use strict";

const Removal = (() => {
  const AT_ONCE = 4;
  /** So many names are said; of more, how many. */
  const NAMED = 10;

  /** Deletes this version. Resolves to what became of it: "deleted", "changed" by another, or why it could not be. */
  async function remove(entry) {
    try {
      await request(path(entry.key), { method: "DELETE", headers: { "If-Match": entry.etag } });
      return "deleted";
    } catch (error) {
      if (error.status === 404) return "deleted"; // by another
      return error.status === 412 ? "changed" : error.message;
    }
  }

  /** Deletes one file, once that is confirmed. Resolves to whether it is gone. */
  async function one(entry) {
    if (!entry) return true;
    const name = shown(entry.key);
    const { isYes } = await ask({ title: `Delete ${name}?`, text: `${Format.bytes(entry.size)}. This cannot be undone.`, yes: "Delete" });
    if (!isYes) return false;
    const fate = await remove(entry);
    if (fate === "deleted") {
      note(`${name} is deleted`);
      Keys.apply([{ op: "delete", key: entry.key }]);
    } else if (fate === "changed") {
      note(`${name} was changed by someone else meanwhile, and is still there.`, true);
      await Keys.load({ isQuiet: true });
    } else {
      note(`${name} was not deleted: ${fate}`, true);
    }
    return fate === "deleted";
  }

  /** Deletes these files and folders, once that is confirmed. `progress` is told how many are done. */
  async function several(all, progress) {
    const [folders, entries] = [all.filter((entry) => entry.isFolder), all.filter((entry) => !entry.isFolder)];
    let measures;
    try {
      measures = await Promise.all(folders.map(({ key }) => Folders.measure(key)));
    } catch (error) {
      return note(`Nothing was deleted: ${error.message}`, true);
    }
    const sum = (some, what) => some.reduce((sum, each) => sum + each[what], 0);
    const size = Format.size(sum(entries, "size") + sum(measures, "bytes"));
    const within = { files: entries.length + sum(measures, "files"), isMore: measures.some(({ isMore }) => isMore) };
    const { isYes } = await ask({
      title: `Delete ${things(all)}?`,
      text:
        folders.length > 0
          ? `${names(all)}, with all that is in folders: ${Folders.files(within)}, ${size} in all. This cannot be undone.`
          : `${names(all)}: ${size} in all. One that someone changes meanwhile stays. This cannot be undone.`,
      yes: "Delete",
    });
    if (!isYes) return;
    const each = [];
    const ahead = [...entries.keys()].reverse();
    const work = async () => {
      for (let at = ahead.pop(); at !== undefined; at = ahead.pop()) {
        each[at] = await remove(entries[at]);
        progress(entries.length - ahead.length);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const fates = new Map(each.map((fate) => [fate, entries.filter((_, at) => each[at] === fate)]));
    Keys.apply((fates.get("deleted") ?? []).map(({ key }) => ({ op: "delete", key })));
    const gone = [];
    for (const [at, { key }] of folders.entries()) {
      gone.push(await Folders.removeNow(key, measures[at]));
      progress(entries.length + at + 1);
    }
    report(fates, gone);
    if (fates.has("changed")) await Keys.load({ isQuiet: true });
  }

  function report(fates, folders) {
    const parts = folders.map(({ text }) => `${text}.`);
    for (const [fate, entries] of fates) {
      const files = plural(entries.length, "file");
      const [is, was] = entries.length === 1 ? ["is", "was"] : ["are", "were"];
      if (fate === "deleted") parts.unshift(`${files} ${is} deleted.`);
      else if (fate === "changed") parts.push(`${files} ${was} changed by someone else meanwhile, and ${is} still there: ${names(entries)}.`);
      else parts.push(`${files} ${was} not deleted: ${names(entries)}: ${fate}.`);
    }
    const isBad = [...fates.keys()].some((fate) => fate !== "deleted") || folders.some((it) => it.isBad);
    note(parts.join(" "), isBad);
  }

  function names(entries) {
    const more = entries.length - NAMED;
    const first = entries.slice(0, NAMED).map((entry) => shown(entry.key)).join(", ");
    return more > 0 ? `${first} and ${plural(more, "other")}` : first;
  }

  return { one, several };
})();
