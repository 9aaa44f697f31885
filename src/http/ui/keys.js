// One page of the listing of a folder: its keys and folders in byte order, read from the server and kept up to date.
// `rows.js` shows them.
"use strict";

const Keys = (() => {
  const REFRESH = 500;

  /** The place that is wanted, and the one that is shown, which is another until the server has answered. */
  let place = Place.of("");
  let listed = place;
  /** What is shown, in byte order. A folder has a key that ends with a slash, and nothing else. */
  let entries = [];
  /** Whether there is more after what is shown. */
  let hasMore = false;
  let loading = null;
  /** How long the server took for the last page, in milliseconds. */
  let cost = 0;
  let refreshTimer = 0;
  /** What the server says to caches of a listing, and of each value that was stored without a Cache-Control. */
  let cacheControl = "";

  /** Reads the page anew. Resolves to whether the server answered, or `null` when another load took its place. */
  async function load({ isQuiet = false } = {}) {
    loading?.abort();
    const mine = new AbortController();
    const wanted = place;
    loading = mine;
    clearTimeout(refreshTimer);
    refreshTimer = 0;
    $("keys").setAttribute("aria-busy", "true");
    const begun = performance.now();
    try {
      const query = new URLSearchParams({ prefix: wanted.prefix, after: wanted.after, limit: wanted.limit, delimiter: "/" });
      const answer = await request(`${path(wanted.folder)}?${query}`, { headers: { Accept: "application/json" }, signal: mine.signal });
      const page = await answer.json();
      if (wanted !== place) return null;
      listed = wanted;
      cacheControl = answer.headers.get("Cache-Control") ?? "";
      const folders = page.prefixes.map((key) => ({ key, isFolder: true }));
      entries = [...page.keys, ...folders].sort((a, b) => compare(a.key, b.key));
      hasMore = page.next !== null;
      show();
      if (!isQuiet) say(summary());
      return true;
    } catch (error) {
      if (loading !== mine) return null;
      if (error.status > 0) note(`The keys could not be listed: ${error.message}`, true);
      return error.status > 0;
    } finally {
      if (loading === mine) {
        loading = null;
        cost = performance.now() - begun;
        $("keys").setAttribute("aria-busy", "false");
      }
    }
  }

  /** Reads the page anew soon, once for all who ask until then, and the later the more that costs. */
  function refresh() {
    refreshTimer ||= setTimeout(() => load({ isQuiet: true }), Math.max(REFRESH, 20 * cost));
  }

  function show(how) {
    Rows.show(listed, Order.arrange(entries, !hasMore && listed.after === ""), how);
    Picked.keep(entries);
    const isEmpty = entries.length === 0;
    $("empty").hidden = !isEmpty;
    $("empty-title").textContent = emptiness();
    const isHint = !listed.prefix && !listed.after && Rights.hasIn("create", listed.folder);
    $("empty-hint").textContent = !isHint ? "" : `Drop files here, or: curl -T file ${location.origin}${path(listed.folder)}key`;
    $("count").textContent = isEmpty ? "" : `${count()}${hasMore || listed.after ? " on this page" : ""}`;
    $("previous").disabled = listed.after === "";
    $("next").disabled = !hasMore;
  }

  function emptiness() {
    const where = listed.folder ? ` in ${shown(listed.folder)}` : "";
    if (listed.prefix) return `No key${where} begins with “${shown(listed.prefix)}”`;
    return listed.after ? "No more keys" : `No keys${where} yet`;
  }

  function count() {
    const folders = entries.filter((entry) => entry.isFolder).length;
    const keys = entries.length - folders;
    return [plural(folders, "folder"), plural(keys, "key")].filter((_, at) => (at === 0 ? folders > 0 : keys > 0 || folders === 0)).join(" and ");
  }

  function summary() {
    const where = listed.folder ? ` in ${shown(listed.folder)}` : "";
    const begin = listed.prefix ? ` that begin with ${shown(listed.prefix)}` : "";
    return count() + where + begin + (hasMore ? ", and more on the next page" : "");
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

  /** Brings the page up to date with changes that others made. */
  function apply(changes) {
    const base = Place.base(listed);
    for (const change of changes) {
      if (!change.key.startsWith(base)) continue;
      const slash = change.key.indexOf("/", base.length);
      if (slash < 0) applyToKey(change);
      else applyToFolder(change, change.key.slice(0, slash + 1));
    }
    if (entries.length > listed.limit) {
      entries.length = listed.limit;
      hasMore = true;
    }
    show({ marksNew: true });
    if (entries.length === 0 && hasMore) load({ isQuiet: true });
  }

  function applyToKey({ op, key, size, etag }) {
    const at = position(key);
    const isShown = entries[at]?.key === key;
    if (op === "delete" && isShown) entries.splice(at, 1);
    else if (op === "put" && isOnPage(key, at)) entries.splice(at, isShown ? 1 : 0, { key, size, etag, modified: timeOf(etag) });
  }

  /** A change below a folder: a key that comes may bring the folder along. One that goes may have been its last, which
   * only the server knows. */
  function applyToFolder({ op }, key) {
    const at = position(key);
    const isShown = entries[at]?.key === key;
    if (op === "delete" && isShown) refresh();
    else if (op === "put" && !isShown && isOnPage(key, at)) entries.splice(at, 0, { key, isFolder: true });
  }

  function isOnPage(key, at) {
    return compare(key, listed.after) > 0 && (at < entries.length || !hasMore);
  }

  /** An entity tag is the time of the change in nanoseconds, in hexadecimal. */
  function timeOf(etag) {
    const digits = /^"([0-9a-f]{1,16})"$/.exec(etag)?.[1];
    const millis = digits ? Number(BigInt(`0x${digits}`) / 1_000_000n) : Date.now();
    return new Date(millis).toISOString();
  }

  return {
    load,
    refresh,
    apply,
    show,
    isLoading: () => loading !== null,
    cacheControl: () => cacheControl,
    /** The entry of a key as it is now, if it is shown. */
    entry(key) {
      const entry = entries[position(key)];
      return entry?.key === key ? entry : undefined;
    },
    place: () => place,
    setPlace(next) {
      place = next;
    },
    /** The place of the page after this one, and of the one before. */
    nextPlace: () => ({ ...listed, after: entries.at(-1)?.key ?? listed.after, back: [...listed.back, listed.after].slice(-1000) }),
    previousPlace: () => ({ ...listed, after: listed.back.at(-1) ?? "", back: listed.back.slice(0, -1) }),
  };
})();
