// Deleting: one file or several, after one question. Each is deleted only as the version that was shown, so what another
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
      say(`${name} is deleted`);
      Keys.apply([{ op: "delete", key: entry.key }]);
    } else if (fate === "changed") {
      note(`${name} was changed by someone else meanwhile, and is still there.`, true);
      await Keys.load({ isQuiet: true });
    } else {
      note(`${name} was not deleted: ${fate}`, true);
    }
    return fate === "deleted";
  }

  /** Deletes these files, once that is confirmed. `progress` is told how many are done. */
  async function several(entries, progress) {
    const bytes = entries.reduce((sum, entry) => sum + entry.size, 0);
    const { isYes } = await ask({
      title: `Delete ${plural(entries.length, "file")}?`,
      text: `${names(entries)}: ${Format.size(bytes)} in all. One that someone changes meanwhile stays. This cannot be undone.`,
      yes: "Delete",
    });
    if (!isYes) return;
    const all = [];
    const ahead = [...entries.keys()].reverse();
    const work = async () => {
      for (let at = ahead.pop(); at !== undefined; at = ahead.pop()) {
        all[at] = await remove(entries[at]);
        progress(entries.length - ahead.length);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const fates = new Map(all.map((fate) => [fate, entries.filter((_, at) => all[at] === fate)]));
    report(fates);
    Keys.apply((fates.get("deleted") ?? []).map(({ key }) => ({ op: "delete", key })));
    if (fates.has("changed")) await Keys.load({ isQuiet: true });
  }

  function report(fates) {
    const parts = [];
    for (const [fate, entries] of fates) {
      const files = plural(entries.length, "file");
      const [is, was] = entries.length === 1 ? ["is", "was"] : ["are", "were"];
      if (fate === "deleted") parts.unshift(`${files} ${is} deleted.`);
      else if (fate === "changed") parts.push(`${files} ${was} changed by someone else meanwhile, and ${is} still there: ${names(entries)}.`);
      else parts.push(`${files} ${was} not deleted: ${names(entries)}: ${fate}.`);
    }
    const isBad = [...fates.keys()].some((fate) => fate !== "deleted");
    note(parts.join(" "), isBad);
  }

  function names(entries) {
    const more = entries.length - NAMED;
    const first = entries.slice(0, NAMED).map((entry) => shown(entry.key)).join(", ");
    return more > 0 ? `${first} and ${plural(more, "other")}` : first;
  }

  return { one, several };
})();
