// What a folder has, or what a search finds in it: files and folders in byte order, read from the server and kept up to
// date. A folder opens with all its names, where one answer has them; else with one page, until a column sorts them, up to
// a bound. `rows.js` shows them.
"use strict";

const Keys = (() => {
  const REFRESH = 500;
  /** The most names that a column sorts, and those of one answer. */
  const SORTED = 100_000;
  const STEP = 10_000;
  /** How long a page waits to be shown for the names behind it, in milliseconds. */
  const SOON = 300;

  /** The place that is wanted, and the one that is shown, which is another until the server has answered. */
  let place = Place.of("");
  let listed = place;
  /** What is shown, in byte order. A folder has a key that ends with a slash, and nothing else. */
  let entries = [];
  /** Whether there is no folder that could be shown. */
  let isAbsent = false;
  /** The same in the order that is shown. */
  let arranged = entries;
  /** Whether there is more after what is shown. */
  let hasMore = false;
  /** Whether `entries` are all names, and not a page of the server's; then a page is shown from this one on. */
  let isAll = false;
  let from = 0;
  /** What the folder has beside: the symbolic links that lead to files and folders, and what is not shown. */
  let beside = {};
  /** The folder that one answer did not have all names of, the last time. */
  let long = null;
  /** The entity tag of the page that was read last. */
  let tag = null;
  /** The dates of files that this page uploads, until the server tells of them: it tells their versions alone. */
  const dates = new Map();
  let loading = null;
  /** How often was read, and what watching told was applied. */
  let [loads, applied] = [0, 0];
  /** How long the server took for the last page, in milliseconds. */
  let cost = 0;
  let refreshTimer = 0;

  /** Reads the page anew; with `isLook` only if it is another than the one that was read last, and without a word of a
   * failure. Resolves to whether the server answered, or `null` when another load took its place. */
  async function load({ isQuiet = false, isLook = false } = {}) {
    loading?.abort();
    loads += 1;
    const [nth, before] = [loads, applied];
    const mine = new AbortController();
    const wanted = place;
    loading = mine;
    clearTimeout(refreshTimer);
    refreshTimer = 0;
    $("keys").setAttribute("aria-busy", "true");
    const begun = performance.now();
    try {
      let found = wanted.find ? { entries: await Search.run(wanted, mine.signal), hasMore: false } : await (Order.wantsAll() ? readAll(wanted, mine.signal) : readPage(wanted, mine.signal, isLook && listed === wanted && entries.length > 0 ? tag : null));
      if (found && opensWhole(wanted)) {
        const rest = readRest(wanted, found, mine.signal);
        const all = await (isAll && listed === wanted ? rest : Promise.race([rest, new Promise((resolve) => setTimeout(resolve, SOON))]));
        if (all) found = all;
        else rest.then((late) => late && loads === nth && applied === before && take(wanted, late));
      }
      if (wanted !== place) return null;
      if (!found) return true;
      take(wanted, found);
      if (wanted.find && Search.goOn()) return load({ isQuiet });
      if (!isQuiet) say(summary());
      return true;
    } catch (error) {
      if (loading !== mine) return null;
      if (error.status > 0 && !isLook) note(`The files could not be listed: ${error.message}`, true);
      return error.status > 0;
    } finally {
      if (loading === mine) {
        loading = null;
        cost = performance.now() - begun;
        $("keys").setAttribute("aria-busy", "false");
      }
    }
  }

  /** Whether all names are read at once, if one more answer has them: not where the address names a page. */
  const opensWhole = (wanted) => !wanted.find && !Order.wantsAll() && wanted.after === "" && wanted.limit === Place.LIMIT && long !== wanted.folder;

  /** All names, where the first page or one more answer has them; else `null`. */
  async function readRest(wanted, first, signal) {
    if (!first.hasMore) return { ...first, isAll: true };
    const rest = await readPage({ ...wanted, after: first.next, limit: STEP - first.entries.length }, signal).catch(() => null);
    if (rest?.hasMore) long = wanted.folder;
    return rest && !rest.hasMore ? { entries: [...first.entries, ...rest.entries], hasMore: false, isAll: true, beside: first.beside } : null;
  }

  function take(wanted, found) {
    listed = wanted;
    ({ entries, hasMore, isAll = false, tag = null, isAbsent = false, beside = {} } = found);
    show();
  }

  async function readPage({ folder, prefix, after, limit }, signal, known) {
    const query = { prefix, after, limit, delimiter: "/", ...(prefix === "" && after === "" && { unlisted: "" }) };
    const page = await list(folder, query, signal, known);
    if (!page) return null;
    const folders = page.prefixes.map((key) => ({ key, isFolder: true }));
    const entries = [...page.keys, ...folders].sort((a, b) => compare(a.key, b.key));
    const isAbsent = entries.length === 0 && folder !== "" && !prefix && !after && (await isMissing(folder, signal));
    return { entries, hasMore: page.next !== null, next: page.next, tag: page.tag, isAbsent, beside: page };
  }

  /** Whether there is no such folder: the list of one that is empty and of one that is not there are the same. */
  async function isMissing(folder, signal) {
    const answer = await fetch(`${absolute(path(folder))}?format=html`, { method: "HEAD", headers: { Accept: "text/html" }, cache: "no-store", signal });
    return answer.status === 404;
  }

  /** All names, or so many of the first. */
  async function readAll(wanted, signal) {
    const all = [];
    let beside = {};
    for (let after = ""; after !== null && all.length < SORTED; ) {
      const page = await readPage({ ...wanted, after, limit: STEP }, signal);
      for (const entry of page.entries) all.push(entry);
      if (after === "") beside = page.beside;
      after = page.next;
      if (!isAll && after !== null) $("count").textContent = `Reading names: ${Format.exact.format(all.length)}`;
      if (after === null) return { entries: all, hasMore: false, isAll: true, beside };
    }
    return { entries: all, hasMore: true, isAll: true, beside };
  }

  /** Shows the order that was chosen, from its first page on; of a list that is not whole, once all names are read. */
  function sort(isWhole) {
    from = 0;
    if (isWhole) return show();
    place = { ...place, after: "", back: [] };
    window.history.replaceState(window.history.state, "", Place.address(place) + location.hash);
    load();
  }

  /** Turns pages where all names are here. Resolves to whether they are. */
  function turn(by) {
    if (!isAll) return false;
    from += by * listed.limit;
    show();
    $("keys").scrollIntoView({ block: "nearest" });
    return true;
  }

  /** Reads the page anew soon, once for all who ask until then, and the later the more that costs. */
  function refresh() {
    refreshTimer ||= setTimeout(() => load({ isQuiet: true }), Math.max(REFRESH, 20 * cost));
  }

  function show(how) {
    arranged = Order.arrange(entries, isAll || (!hasMore && listed.after === ""));
    if (from >= arranged.length) from = 0;
    const page = isAll ? arranged.slice(from, from + listed.limit) : arranged;
    Rows.show(listed, page, how);
    Picked.keep(page);
    const isEmpty = entries.length === 0;
    const isSearch = listed.find !== "";
    $("empty").hidden = !isEmpty;
    $("empty-title").textContent = emptiness();
    $("empty-hint").textContent = hint();
    $("prefix").hidden = listed.prefix === "" || isSearch;
    $("prefix-text").textContent = `Only names that begin with “${shown(listed.prefix)}”.`;
    const all = { href: path(listed.folder), "data-folder": listed.folder };
    for (const [name, value] of Object.entries(all)) $("prefix-all").setAttribute(name, value);
    const extent = isSearch ? `found, ${Search.extent()}` : isAll ? sortedExtent(page.length) : hasMore || listed.after ? "on this page, in the order of their bytes" : "";
    $("count").textContent = isEmpty && !isSearch ? "" : `${things(entries)} ${extent}`.trim();
    $("search-on").hidden = !isSearch || Search.isWhole();
    $("previous").hidden = isAll ? from === 0 : listed.after === "";
    $("next").hidden = isAll ? from + listed.limit >= arranged.length : !hasMore;
    $("zip").hidden = isEmpty || isSearch || listed.prefix !== "" || !Rights.hasBelow("read", listed.folder);
    $("zip").href = zipOf(listed.folder);
    $("share-folder").hidden = isSearch || listed.prefix !== "" || !Share.may(listed.folder);
    $("share-folder").dataset.folder = listed.folder;
    showBeside(isSearch ? {} : beside);
    Preview.outline();
  }

  function showBeside({ links = [], unlisted = "" }) {
    const all = links.flatMap((name) => [", ", make("a", { href: path(listed.folder + name) }, shown(name))]);
    $("unlisted").hidden = all.length === 0 && unlisted === "";
    $("unlisted").replaceChildren(...(all.length > 0 ? ["Symbolic links: ", ...all.slice(1), ". "] : []), unlisted);
  }

  function emptiness() {
    const where = listed.folder ? ` in ${shown(listed.folder)}` : "";
    if (listed.find) return `No name${where} has “${shown(listed.find)}” in it`;
    if (listed.prefix) return `No name${where} begins with “${shown(listed.prefix)}”`;
    if (listed.after) return "No more files";
    if (!Rights.sees(listed.folder)) return "Nothing that you may see here";
    return isAbsent ? `There is no folder ${shown(listed.folder)}` : `No files${where} yet`;
  }

  function hint() {
    if (listed.find || listed.prefix || listed.after) return "";
    if (isAbsent) return Rights.hasIn("create", listed.folder) ? "Uploading a file here makes it." : "";
    if (Rights.hasIn("create", listed.folder)) return `Drop files here, or: curl -T file ${location.origin}${path(listed.folder)}name`;
    return Rights.mayBeMore() ? "Sign in to see what is yours." : "";
  }

  /** Which of the sorted names are shown, and that others are not sorted. */
  function sortedExtent(shownNow) {
    const parts = shownNow < arranged.length ? [`${Format.exact.format(from + 1)} to ${Format.exact.format(from + shownNow)} shown`] : [];
    if (hasMore) parts.push("those behind in the order of their bytes are not sorted and not shown");
    return parts.length > 0 ? `(${parts.join("; ")})` : "";
  }

  function summary() {
    const where = listed.folder ? ` in ${shown(listed.folder)}` : "";
    const found = listed.find ? ` with ${shown(listed.find)} in the name, ${Search.extent()}` : listed.prefix ? ` that begin with ${shown(listed.prefix)}` : "";
    return (things(entries) + where + found + (isAll ? ` ${sortedExtent(Math.min(listed.limit, arranged.length - from))}` : hasMore ? ", and more on the next page" : "")).trimEnd();
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
    applied += 1;
    Search.forget();
    for (const change of changes) {
      if (!change.key.startsWith(base)) continue;
      if (listed.find) {
        if (Search.isHit(listed, change.key)) applyToKey(change);
        continue;
      }
      const slash = change.key.indexOf("/", base.length);
      if (slash < 0) applyToKey(change);
      else applyToFolder(change, change.key.slice(0, slash + 1));
    }
    if (!listed.find && !isAll && entries.length > listed.limit) {
      entries.length = listed.limit;
      hasMore = true;
    }
    show({ marksNew: true });
    // With its last file a folder may have gone, too.
    if (entries.length === 0 && (hasMore || listed.folder)) load({ isQuiet: true });
  }

  function applyToKey({ op, key, size, etag }) {
    const at = position(key);
    const isShown = entries[at]?.key === key;
    if (op === "delete" && isShown) entries.splice(at, 1);
    else if (op === "put" && isOnPage(key, at)) entries.splice(at, isShown ? 1 : 0, { key, size, etag, modified: timeOf(etag), date: dates.get(key) });
    dates.delete(key);
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

  /** An entity tag begins with the time of the change in nanoseconds, in hexadecimal; the length follows. */
  function timeOf(etag) {
    const digits = /^"([0-9a-f]{1,16})-[0-9a-f]+"$/.exec(etag)?.[1];
    const millis = digits ? Number(BigInt(`0x${digits}`) / 1_000_000n) : Date.now();
    return new Date(millis).toISOString();
  }

  return {
    load,
    refresh,
    apply,
    sort,
    turn,
    isLoading: () => loading !== null,
    /** A file is about to be stored with this date. */
    date: (key, date) => Live.isLive() && date > 0 && dates.set(key, date.toISOString()),
    /** How long the last page took to be read, in milliseconds. */
    cost: () => cost,
    /** The entry of a key as it is now, if it is shown. */
    entry(key) {
      const entry = entries[position(key)];
      return entry?.key === key ? entry : undefined;
    },
    /** The folders that a file may be moved to, of those that are known here: those above, and those in the list. */
    folders() {
      const all = entries.filter((entry) => entry.isFolder).map((entry) => entry.key);
      for (let at = Place.above(listed.folder); at; at = Place.above(at)) all.push(at);
      return all;
    },
    /** The file that is shown so many places behind that of `key`, if there is one. */
    beside(key, step) {
      const files = arranged.filter((entry) => !entry.isFolder);
      const at = files.findIndex((entry) => entry.key === key);
      return at < 0 ? undefined : files[at + step];
    },
    place: () => place,
    setPlace(next) {
      place = next;
      from = 0;
      Order.forget();
    },
    /** The place of the page after this one, and of the one before. */
    nextPlace: () => ({ ...listed, after: entries.at(-1)?.key ?? listed.after, back: [...listed.back, listed.after].slice(-1000) }),
    previousPlace: () => ({ ...listed, after: listed.back.at(-1) ?? "", back: listed.back.slice(0, -1) }),
  };
})();
