// The table of keys: one page of the listing, kept in byte order, and what is done to a key from its row.
"use strict";

const Keys = (() => {
  const LIMIT = 100;

  /** Which page is shown: its prefix, the key it comes after, and those of the pages before it. */
  let place = { prefix: "", after: "", back: [] };
  /** The entries shown, in byte order, and the row of each key. */
  let entries = [];
  const rows = new Map();
  /** Whether there are keys after those that are shown. */
  let hasMore = false;
  let loading = null;

  /** Reads the page anew. Resolves to whether the server answered, or `null` when another load took its place. */
  async function load({ isQuiet = false } = {}) {
    loading?.abort();
    const mine = new AbortController();
    loading = mine;
    $("keys").setAttribute("aria-busy", "true");
    try {
      const query = new URLSearchParams({ prefix: place.prefix, after: place.after, limit: LIMIT });
      const answer = await request(`/?${query}`, { headers: { Accept: "application/json" }, signal: mine.signal });
      const page = await answer.json();
      show(page.keys, page.next !== null);
      if (!isQuiet) say(summary());
      return true;
    } catch (error) {
      if (loading !== mine) return null;
      if (error.status > 0) note(`The keys could not be listed: ${error.message}`, true);
      return error.status > 0;
    } finally {
      if (loading === mine) {
        loading = null;
        $("keys").setAttribute("aria-busy", "false");
      }
    }
  }

  function show(fresh, more) {
    const kept = new Set(fresh.map((entry) => entry.key));
    for (const [key, row] of rows) if (!kept.has(key)) drop(key, row);
    const isFirst = entries.length === 0;
    entries = [];
    fresh.forEach((entry, at) => {
      entries.push(entry);
      draw(entry, at, !isFirst && rows.has(entry.key));
    });
    hasMore = more;
    outline();
  }

  /** Puts the row of `entry` at its place, or brings it up to date there. Rows that stay are not moved, so that the
   * focus stays too. */
  function draw(entry, at, isMarked) {
    const old = rows.get(entry.key);
    if (old?.dataset.etag === entry.etag) return;
    const row = old ?? makeRow(entry.key);
    row.dataset.etag = entry.etag;
    const date = new Date(entry.modified);
    const time = make("time", { datetime: date.toISOString(), title: entry.modified }, Format.time(date));
    row.querySelector(".size").textContent = Format.size(entry.size);
    row.querySelector(".size").title = Format.bytes(entry.size);
    row.querySelector(".time").replaceChildren(time);
    if (!old) {
      rows.set(entry.key, row);
      $("rows").insertBefore(row, $("rows").children[at] ?? null);
    }
    if (isMarked) mark(row);
  }

  function makeRow(key) {
    const name = shown(key);
    const entryNow = () => entries.find((entry) => entry.key === key);
    const open = make("button", { type: "button", class: "key", click: () => Preview.open(entryNow()) }, name);
    const download = make("a", { class: "button act", href: path(key), download: key.split("/").at(-1), "aria-label": `Download ${name}`, title: "Download" }, icon("download"));
    const remove = make("button", { type: "button", class: "act danger", "aria-label": `Delete ${name}`, title: "Delete", click: () => removeAsked(entryNow()) }, icon("delete"));
    return make(
      "tr",
      { role: "row", animationend: (event) => event.currentTarget.classList.remove("changed") },
      make("th", { role: "rowheader", scope: "row" }, open),
      make("td", { role: "cell", class: "size" }),
      make("td", { role: "cell", class: "time" }),
      make("td", { role: "cell", class: "actions" }, download, remove),
    );
  }

  function mark(row) {
    row.classList.remove("changed");
    void row.offsetWidth; // begins the animation anew
    row.classList.add("changed");
  }

  /** Removes a row; the focus, if it was there, goes to the row that takes its place. */
  function drop(key, row) {
    const hadFocus = row.contains(document.activeElement);
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    rows.delete(key);
    if (hadFocus) (next?.querySelector(".key") ?? $("find")).focus();
  }

  function summary() {
    const count = entries.length;
    const keys = count === 1 ? "1 key" : `${count} keys`;
    const begin = place.prefix ? ` that begin with ${shown(place.prefix)}` : "";
    return keys + begin + (hasMore ? ", and more on the next page" : "");
  }

  function outline() {
    const isEmpty = entries.length === 0;
    $("empty").hidden = !isEmpty;
    $("empty-title").textContent = place.prefix ? `No key begins with “${shown(place.prefix)}”` : place.after ? "No more keys" : "No keys yet";
    $("empty-hint").textContent = place.prefix || place.after ? "" : `Drop files here, or: curl -T file ${location.origin}/key`;
    $("count").textContent = isEmpty ? "" : `${entries.length === 1 ? "1 key" : `${entries.length} keys`}${hasMore || place.after ? " on this page" : ""}`;
    $("previous").disabled = place.after === "";
    $("next").disabled = !hasMore;
  }

  /** Where `key` stands among the entries, or would. */
  function position(key) {
    let [low, high] = [0, entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(entries[middle].key, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Brings the table up to date with changes that others made. */
  function apply(changes) {
    for (const change of changes) {
      if (!change.key.startsWith(place.prefix)) continue;
      const at = position(change.key);
      const isShown = entries[at]?.key === change.key;
      if (change.op === "delete" && isShown) {
        entries.splice(at, 1);
        drop(change.key, rows.get(change.key));
      } else if (change.op === "put" && isOnPage(change.key, at)) {
        const modified = timeOf(change.etag);
        const entry = { key: change.key, size: change.size, etag: change.etag, modified };
        entries.splice(at, isShown ? 1 : 0, entry);
        draw(entry, at, true);
      }
    }
    while (entries.length > LIMIT) {
      const last = entries.pop();
      drop(last.key, rows.get(last.key));
      hasMore = true;
    }
    outline();
    if (entries.length === 0 && hasMore) load({ isQuiet: true });
  }

  function isOnPage(key, at) {
    return compare(key, place.after) > 0 && (at < entries.length || !hasMore);
  }

  /** An entity tag is the time of the change in nanoseconds, in hexadecimal. */
  function timeOf(etag) {
    const digits = /^"([0-9a-f]{1,16})"$/.exec(etag)?.[1];
    const millis = digits ? Number(BigInt(`0x${digits}`) / 1_000_000n) : Date.now();
    return new Date(millis).toISOString();
  }

  /** Deletes the version that is shown, once that is confirmed. Resolves to whether it is gone. */
  async function removeAsked(entry) {
    if (!entry) return true;
    const name = shown(entry.key);
    const { isYes } = await ask({ title: `Delete ${name}?`, text: `${Format.bytes(entry.size)}. This cannot be undone.`, yes: "Delete" });
    if (!isYes) return false;
    try {
      await request(path(entry.key), { method: "DELETE", headers: { "If-Match": entry.etag } });
      say(`${name} is deleted`);
    } catch (error) {
      if (error.status === 412) note(`${name} was changed by someone else meanwhile, and is still there.`, true);
      else if (error.status !== 404) note(`${name} was not deleted: ${error.message}`, true);
      if (error.status !== 412 && error.status !== 404) return false;
      await load({ isQuiet: true });
      return error.status === 404;
    }
    apply([{ op: "delete", key: entry.key }]);
    return true;
  }

  return {
    load,
    apply,
    removeAsked,
    isLoading: () => loading !== null,
    place: () => place,
    setPlace(next) {
      place = next;
    },
    /** The place of the page after this one, and of the one before. */
    nextPlace: () => ({ ...place, after: entries.at(-1)?.key ?? place.after, back: [...place.back, place.after].slice(-1000) }),
    previousPlace: () => ({ ...place, after: place.back.at(-1) ?? "", back: place.back.slice(0, -1) }),
  };
})();
