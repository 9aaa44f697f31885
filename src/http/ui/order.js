// The order of the rows. A listing comes in byte order; where it is whole, the heads of the columns put it in another.
"use strict";

const Order = (() => {
  /** What a column sorts by, what its two orders are called, and whether a first click begins with the greatest. */
  const COLUMNS = {
    key: { is: () => 0, names: ["in byte order", "in byte order, from the last"], isDown: false },
    size: { is: (entry) => entry.size, names: ["by size, smallest first", "by size, largest first"], isDown: true },
    time: { is: (entry) => Date.parse(entry.modified), names: ["by time, oldest first", "by time, newest first"], isDown: true },
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
    say(`Keys ${COLUMNS[name].names[Number(isDown)]}`);
  }

  /** These entries of a page, which are in byte order, in the order that was chosen. Folders have no size and no time: by
   * those they come first. */
  function arrange(entries, pageIsWhole) {
    isWhole = pageIsWhole;
    outline();
    if (!isWhole || (chosen === "key" && !isDown)) return entries;
    if (chosen === "key") return entries.toReversed();
    const { is } = COLUMNS[chosen];
    const sign = isDown ? -1 : 1;
    // The sort is stable: equal ones stay in byte order.
    const keys = entries.filter((entry) => !entry.isFolder).sort((a, b) => sign * (is(a) - is(b)));
    return [...entries.filter((entry) => entry.isFolder), ...keys];
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
    $("keys").caption.textContent = `Keys ${COLUMNS[current].names[Number(down)]}`;
  }

  return { arrange };
})();
