// The keys of the keyboard, where nothing is typed and no dialog is open: `/` to the search, arrows from row to row and
// within one, Home and End, Space to select, F2 to rename or move, Delete to delete what is selected, or else the file of the row.
"use strict";

(() => {
  const name = (row) => row?.querySelector(".key");

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { target } = event;
    const isTyping = target.matches("input:not([type=checkbox]), textarea");
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
        return move(event, name(row.nextElementSibling));
      case "ArrowUp":
        return move(event, name(row.previousElementSibling));
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
        if (entry && Rename.may(entry.key)) Rename.open(entry);
        return;
      }
      case "Delete":
        if (Picked.isAny()) Picked.remove();
        else row.querySelector(".danger")?.click();
    }
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
