// The keys of the keyboard, where nothing is typed and no dialog is open: `/` to the search, arrows from row to row and
// within one, Home and End, Space to select, Shift and an arrow to select from row to row, Control and A for all, F2 to rename or move, Delete to delete what is selected, or else the file of the row.
"use strict";

(() => {
  const name = (row) => row?.querySelector(".key");

  document.addEventListener("keydown", (event) => {
    if (event.altKey || document.querySelector("dialog[open]")) return;
    const { target } = event;
    const isTyping = target.matches("input:not([type=checkbox]), textarea");
    if (event.ctrlKey || event.metaKey) {
      if (event.key !== "a" || isTyping || $("keys-view").hidden) return;
      event.preventDefault();
      return Picked.pickAll(true);
    }
    if (event.key === "/" && !isTyping) return move(event, $("find"));
    const first = name($("rows").firstElementChild);
    if (target === $("find") && event.key === "ArrowDown") return move(event, first);
    const row = target.closest("#rows tr");
    if (row) inRow(event, row);
  });

  function inRow(event, row) {
    const parts = [...row.querySelectorAll("a, button, input")];
    const at = parts.indexOf(event.target);
    switch (event.key) {
      case "ArrowDown":
        return step(event, row, row.nextElementSibling);
      case "ArrowUp":
        return step(event, row, row.previousElementSibling);
      case "Home":
        return move(event, name(row.parentElement.firstElementChild));
      case "End":
        return move(event, name(row.parentElement.lastElementChild));
      case "ArrowRight":
        return move(event, parts[at + 1]);
      case "ArrowLeft":
        return move(event, parts[at - 1]);
      case " ": {
        const box = row.querySelector(".pick");
        if (event.target !== name(row) || !box) return;
        event.preventDefault();
        return box.click();
      }
      case "F2": {
        if (row.ariaBusy === "true") return;
        const { key, folder } = name(row).dataset;
        const entry = !row.matches(".up") && Keys.entry(key ?? folder);
        if (entry && Rename.mayCopy(entry.key)) Rename.open(entry);
        return;
      }
      case "Delete":
        if (Picked.isAny()) Picked.remove();
        else row.querySelector(".danger")?.click();
    }
  }

  function step(event, row, next) {
    const key = (row) => row?.querySelector(".pick")?.value;
    if (event.shiftKey && key(next) !== undefined) Picked.extend(key(next), key(row));
    move(event, name(next));
  }

  function move(event, element) {
    event.preventDefault();
    element?.focus();
  }

  $("skip").addEventListener("click", (event) => {
    const first = name($("rows").firstElementChild);
    if (first) move(event, first);
  });
})();
