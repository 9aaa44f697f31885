// The order of the rows: folders first, always, and each kind by name as people read it, or by what the head of a column
// says. A page of a list of more than 10,000 is in the order of the server until a head is pressed, which has
// all names read.
"use strict";

const Order = (() => {
  const collator = new Intl.Collator(undefined, { numeric: true });
  const name = ({ key, isFolder }) => (isFolder ? key.slice(0, -1) : key);
  const byName = (a, b) => collator.compare(name(a), name(b)) || compare(a.key, b.key);
  /** How a column sorts, what its two orders are called, and whether a first click begins with the greatest. */
  const COLUMNS = {
    key: { order: byName, names: ["by name", "by name, from the last"], isDown: false },
    size: { order: (a, b) => a.size - b.size, names: ["by size, smallest first", "by size, largest first"], isDown: true },
    time: { order: (a, b) => Date.parse(a.date ?? a.modified) - Date.parse(b.date ?? b.modified), names: ["by time, oldest first", "by time, newest first"], isDown: true },
  };

  let chosen = "key";
  let isDown = false;
  let isWhole = true;
  /** All names are wanted, also of a list of several pages. */
  let wantsAll = false;

  const heads = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, makeHead(name)]));

  /** Makes a button of what the head of the column says. */
  function makeHead(name) {
    const head = document.querySelector(`#keys thead [data-column=${name}]`);
    head.setAttribute("aria-label", head.textContent);
    head.replaceChildren(make("button", { type: "button", class: "sort", click: () => choose(name) }, head.textContent, icon("up")));
    return head;
  }

  function choose(name) {
    isDown = name === chosen && isWhole ? !isDown : COLUMNS[name].isDown;
    chosen = name;
    wantsAll ||= !isWhole;
    Keys.sort(isWhole);
    say(`Files ${COLUMNS[name].names[Number(isDown)]}`);
  }

  /** These entries of a page in the order that was chosen. Folders have no size and no time: by those they are in the order
   * of their names. */
  function arrange(entries, pageIsWhole) {
    isWhole = pageIsWhole;
    outline();
    if (!isWhole) return entries.filter((entry) => entry.isFolder).concat(entries.filter((entry) => !entry.isFolder));
    const [column, sign] = [chosen, isDown ? -1 : 1];
    const sorted = (some, order) => some.sort((a, b) => sign * order(a, b) || byName(a, b));
    const folders = sorted(entries.filter((entry) => entry.isFolder), column === "key" ? byName : () => 0);
    return folders.concat(sorted(entries.filter((entry) => !entry.isFolder), COLUMNS[column].order));
  }

  function outline() {
    for (const [name, head] of Object.entries(heads)) {
      head.querySelector(".sort").title = isWhole ? "" : "Reads and sorts all names";
      if (isWhole && name === chosen) head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    $("keys").caption.textContent = isWhole ? `Files ${COLUMNS[chosen].names[Number(isDown)]}` : "Files in the order of their bytes, one page of several";
  }

  return {
    arrange,
    wantsAll: () => wantsAll,
    /** Another place is shown: of that, all names are not wanted yet. */
    forget() {
      wantsAll = false;
    },
  };
})();
