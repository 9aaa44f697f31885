// Search inside names: of all that is in a folder and in the folders below it. The server has no such search, so the names
// are read here, up to a bound that is told and can be raised. Names that begin with the text are asked of the server, so
// those of the folder itself are found however many there are.
"use strict";

const Search = (() => {
  /** The most names that one answer has. */
  const STEP = 10_000;
  /** The most that are read unasked, and the more at each press of the button. */
  const MORE = 100_000;
  const SHOWN = 1_000;
  const FRESH = 10_000;

  /** What was read of a folder: files in byte order, up to `after`, which is `null` where nothing is left. */
  let read = null;
  let bound = STEP;
  let most = MORE;
  /** What the last search came to, for the line below the list. */
  let outcome = { names: 0, isWhole: true, isCut: false };

  const fold = (text) => text.normalize().toLowerCase();

  /** Whether the last segment of `key`, which lies below the folder of the place, has the text in it; with a slash in the
   * text, whether the path has. */
  function isHit(place, key) {
    const path = key.slice(place.folder.length);
    const wanted = fold(place.find);
    const name = wanted.includes("/") ? path : path.slice(path.lastIndexOf("/", path.length - 2) + 1);
    return fold(name).includes(wanted);
  }

  /** The files and folders that a search finds, in byte order. */
  async function run(place, signal) {
    if (read?.folder !== place.folder || performance.now() - read.at > FRESH) {
      if (read?.folder !== place.folder) [bound, most] = [STEP, MORE];
      read = { folder: place.folder, files: [], after: "", at: performance.now() };
    }
    const mine = read;
    while (mine.after !== null && mine.files.length < bound) {
      const page = await list(place.folder, { after: mine.after, limit: STEP }, signal);
      mine.files.push(...page.keys);
      mine.after = page.next;
    }
    const isWhole = mine.after === null;
    const found = new Map();
    const look = (file) => {
      for (let end = file.key.indexOf("/", place.folder.length); end >= 0; end = file.key.indexOf("/", end + 1)) {
        const key = file.key.slice(0, end + 1);
        if (!found.has(key) && isHit(place, key)) found.set(key, { key, isFolder: true });
      }
      if (isHit(place, file.key)) found.set(file.key, file);
    };
    mine.files.forEach(look);
    if (!isWhole) (await list(place.folder, { prefix: place.find, limit: SHOWN }, signal)).keys.forEach(look);
    const all = [...found.values()].sort((a, b) => compare(a.key, b.key));
    outcome = { names: mine.files.length, isWhole, isCut: all.length > SHOWN };
    return all.slice(0, SHOWN);
  }

  /** How far the last search went, in words. */
  function extent() {
    const names = plural(outcome.names, "name");
    const cut = outcome.isCut ? `the first ${Format.exact.format(SHOWN)} found; ` : "";
    return outcome.isWhole ? `${cut}all ${names} searched` : `${cut}only the first ${names} searched`;
  }

  /** Whether the search goes on by itself. What is found so far is shown before. */
  function goOn() {
    if (outcome.isWhole || bound >= most) return false;
    bound += STEP;
    return true;
  }

  $("search-on").addEventListener("click", () => {
    most += MORE;
    goOn();
    Keys.load();
  });

  return {
    run,
    isHit,
    extent,
    goOn,
    isWhole: () => outcome.isWhole,
    /** What was read has changed. */
    forget() {
      read = read && { ...read, at: -Infinity };
    },
  };
})();
