// The order of the rows: folders first, always, and each kind by name as people read it. Where the list is whole, the heads
// of the columns put it in another.
"use strict";

const Order = (() => {
  const collator = new Intl.Collator(undefined, { numeric: true });
  const name = ({ key, isFolder }) => (isFolder ? key.slice(0, -1) : key);
  const byName = (a, b) => collator.compare(name(a), name(b)) || compare(a.key, b.key);
  /** How a column sorts, what its two orders are called, and whether a first click begins with the greatest. */
  const COLUMNS = {
    key: { order: byName, names: ["by name", "by name, from the last"], isDown: false },
    size: { order: (a, b) => a.size - b.size, names: ["by size, smallest first", "by size, largest first"], isDown: true },
    time: { order: (a, b) => Date.parse(a.modified) - Date.parse(b.modified), names: ["by time, oldest first", "by time, newest first"], isDown: true },
  };
  const NOT_WHOLE = "Only a whole list can be sorted, and this one has several pages";

  let chosen = "key";
  let isDown = false;
  let isWhole = true;

  const heads = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, makeHead(name)]));

  /** Makes a button of what the head of the column says. */
  function makeHead(name) {
    const head = document.querySelector(`#keys thead [data-column=${name}]`);
    head.setAttribute("aria-label", head.textContent);
    head.replaceChildren(make("button", { type: "button", class: "sort", click: () => choose(name) }, head.textContent, icon("up")));
    return head;
  }

  function choose(name) {
    isDown = name === chosen ? !isDown : COLUMNS[name].isDown;
    chosen = name;
    Keys.show();
    say(`Files ${COLUMNS[name].names[Number(isDown)]}`);
  }

  /** These entries of a page in the order that was chosen. Folders have no size and no time: by those they are in the order
   * of their names. */
  function arrange(entries, pageIsWhole) {
    isWhole = pageIsWhole;
    outline();
    const [column, sign] = isWhole ? [chosen, isDown ? -1 : 1] : ["key", 1];
    const sorted = (some, order) => some.sort((a, b) => sign * order(a, b) || byName(a, b));
    const folders = sorted(entries.filter((entry) => entry.isFolder), column === "key" ? byName : () => 0);
    return folders.concat(sorted(entries.filter((entry) => !entry.isFolder), COLUMNS[column].order));
  }

  function outline() {
    const [current, down] = isWhole ? [chosen, isDown] : ["key", false];
    for (const [name, head] of Object.entries(heads)) {
      const button = head.querySelector(".sort");
      button.disabled = !isWhole;
      button.title = isWhole ? "" : NOT_WHOLE;
      if (name === current) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    $("keys").caption.textContent = `Files ${COLUMNS[current].names[Number(down)]}`;
  }

  return { arrange };
})();
