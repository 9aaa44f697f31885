// What this client may do, as the document says: nothing is offered that would be refused. The rules may have been replaced
// since then, so the server decides each request all the same.
"use strict";

const Rights = (() => {
  /** The prefixes of keys that each right holds for; and where there are rules, `name`: the subject, "" without one. */
  const prefixes = JSON.parse($("keys-view").dataset.rights);

  /** Whether a right holds for `key`. */
  const has = (right, key) => prefixes[right].some((prefix) => key.startsWith(prefix));

  /** Whether a right holds for any key. */
  const hasAny = (right) => prefixes[right].length > 0;

  /** Whether it may hold for a key that lies in `folder`, in no folder of it. */
  const hasIn = (right, folder) => has(right, folder) || prefixes[right].some((prefix) => prefix.startsWith(folder) && !prefix.includes("/", folder.length));

  /** Whether it may hold for a key in `folder` or below it. */
  const hasBelow = (right, folder) => has(right, folder) || prefixes[right].some((prefix) => prefix.startsWith(folder));

  /** Whether all that is in `folder` is seen, so that an empty list says that it is empty. */
  const sees = (folder) => has("list", folder);

  /** Whether a file may be downloaded or deleted, or something of a folder, or all of it. */
  const mayDownload = (key) => (key.endsWith("/") ? hasBelow("read", key) : has("read", key));
  const mayDelete = (key) => has("delete", key) && (!key.endsWith("/") || sees(key));

  /** The longest that a link to share lasts, in seconds. */
  const lasts = () => prefixes.lasts;

  /** Whether the server's figures are offered: where there are rules, to who may read them, else to who is at the server itself. A browser
   * asks for a password where it is refused what the page asks for. */
  const seesMetrics = () => prefixes.metrics && ("name" in prefixes || /^(localhost|127\..*|\[::1\])$/.test(location.hostname));

  /** Whether one who signs in may see more. */
  const mayBeMore = () => prefixes.name === "";

  /** Whether the server takes the path of the root from a Destination, where a proxy has put it in front. */
  const isPrefixed = () => prefixes.prefixed;

  return { has, hasAny, hasIn, hasBelow, sees, mayDownload, mayDelete, lasts, seesMetrics, mayBeMore, isPrefixed };
})();
