// The place that is shown: a folder, what its names contain or begin with, the name that the page comes after, and the
// length of a page; and the file of it that is looked at. The address tells it, so that a place can be kept, sent and gone
// back to.
"use strict";

const Place = (() => {
  const LIMIT = 1_000;

  /** The folder of the address: its segments decoded, with a slash at the end; "" at the root. */
  function folder() {
    try {
      return decodeURIComponent(location.pathname.slice(root.length));
    } catch {
      return ""; // no folder has such an address
    }
  }

  /** The place of the address. `back` has the pages before it, each by the key that it comes after. */
  function here() {
    const query = new URLSearchParams(location.search);
    const asked = Number(query.get("limit"));
    const limit = Number.isInteger(asked) && asked >= 1 && asked <= 10_000 ? asked : LIMIT;
    const text = (name) => query.get(name) ?? "";
    return { folder: folder(), find: text("find"), prefix: text("prefix"), after: text("after"), limit, back: window.history.state?.back ?? [] };
  }

  /** The key of the file that the address has looked at, or `null`. */
  function viewed() {
    const name = new URLSearchParams(location.search).get("view");
    return name ? folder() + name : null;
  }

  /** The address of a place, in which `key` is looked at. */
  function address(place, key = null) {
    const query = new URLSearchParams();
    for (const name of ["find", "prefix", "after"]) if (place[name]) query.set(name, place[name]);
    if (place.limit !== LIMIT) query.set("limit", place.limit);
    if (key !== null) query.set("view", key.slice(place.folder.length));
    return path(place.folder) + (query.size > 0 ? `?${query}` : "");
  }

  /** The place of a folder: its first page, of all that is in it. */
  const of = (folder) => ({ folder, find: "", prefix: "", after: "", limit: LIMIT, back: [] });

  /** What the keys of a place begin with. */
  const base = (place) => place.folder + place.prefix;

  /** The folder that holds this one, or `null` at the root. */
  function above(folder) {
    return folder === "" ? null : folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1);
  }

  /** A link to a folder. `app.js` follows it without a new document. */
  function link(folder, properties, ...children) {
    return make("a", { ...properties, href: path(folder), "data-folder": folder }, ...children);
  }

  /** The folders from the root to this one, each a link. */
  function crumbs(place) {
    const all = [];
    for (let at = place.folder; at !== null; at = above(at)) all.unshift(at);
    const items = all.map((at, depth) => {
      const name = depth === 0 ? "Files" : shown(at.slice(all[depth - 1].length, -1));
      return make("li", {}, link(at, at === place.folder ? { "aria-current": "page" } : {}, name));
    });
    const hadFocus = $("crumbs").contains(document.activeElement);
    $("crumbs-list").replaceChildren(...items);
    $("crumbs").hidden = place.folder === "";
    if (hadFocus) (place.folder === "" ? $("find") : items.at(-1).firstElementChild).focus();
  }

  return { LIMIT, here, viewed, address, of, base, above, link, crumbs };
})();
