// Puts the page together: the views, the place in the listing that the address tells, and where files come from.
"use strict";

(() => {
  const DEBOUNCE = 200;

  function place() {
    const query = new URLSearchParams(location.search);
    return { prefix: query.get("prefix") ?? "", after: query.get("after") ?? "", back: window.history.state?.back ?? [] };
  }

  /** The address tells the place, so that it can be kept, sent and gone back to. */
  function go(next, isNew) {
    const query = new URLSearchParams();
    if (next.prefix) query.set("prefix", next.prefix);
    if (next.after) query.set("after", next.after);
    const address = `/${query.size > 0 ? `?${query}` : ""}${location.hash}`;
    window.history[isNew ? "pushState" : "replaceState"]({ back: next.back }, "", address);
    turnTo(next);
  }

  function turnTo(next) {
    const isOther = next.prefix !== Keys.place().prefix;
    Keys.setPlace(next);
    if (isOther) Live.begin();
    else Keys.load();
  }

  let typing = 0;
  const find = $("find");
  find.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, DEBOUNCE);
  });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search();
  });

  function search() {
    clearTimeout(typing);
    const prefix = find.value;
    if (prefix !== Keys.place().prefix) go({ prefix, after: "", back: [] }, false);
  }

  function page(next) {
    go(next, true);
    $("keys").scrollIntoView({ block: "nearest" });
  }
  $("next").addEventListener("click", () => page(Keys.nextPlace()));
  $("previous").addEventListener("click", () => page(Keys.previousPlace()));

  window.addEventListener("popstate", () => {
    const next = place();
    const old = Keys.place();
    if (next.prefix === old.prefix && next.after === old.after) return; // the view changed, not the place
    find.value = next.prefix;
    turnTo(next);
  });

  function view() {
    const isReactors = location.hash === "#reactors";
    $("keys-view").hidden = isReactors;
    $("reactors-view").hidden = !isReactors;
    for (const [id, isCurrent] of [["to-keys", !isReactors], ["to-reactors", isReactors]]) {
      if (isCurrent) $(id).setAttribute("aria-current", "page");
      else $(id).removeAttribute("aria-current");
    }
    document.title = isReactors ? "Reactors – data-server" : "data-server";
    Reactors.show(isReactors);
  }
  window.addEventListener("hashchange", view);

  $("upload").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", () => {
    Uploads.add([...$("files").files].map((file) => ({ file, key: file.name })));
    $("files").value = "";
  });
  $("uploads-clear").addEventListener("click", Uploads.clear);

  // Entering a child fires before leaving its parent, so the depth is 0 only outside.
  let depth = 0;
  const bringsFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false;
  function cover(change) {
    depth = Math.max(0, depth + change);
    $("drop").hidden = depth === 0;
  }
  window.addEventListener("dragenter", (event) => bringsFiles(event) && cover(1));
  window.addEventListener("dragleave", (event) => bringsFiles(event) && cover(-1));
  window.addEventListener("dragover", (event) => bringsFiles(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!bringsFiles(event)) return;
    event.preventDefault();
    cover(-depth);
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    // The items are gone once this function waits.
    const entries = items.map((item) => item.webkitGetAsEntry?.());
    const files = items.map((item) => item.getAsFile());
    items.forEach((_, at) => {
      if (entries[at]?.isDirectory) addFolder(entries[at]);
      else if (files[at]) Uploads.add([{ file: files[at], key: files[at].name }]);
    });
  });

  /** Uploads the files in and below a dropped folder, each with its path as its key. */
  async function addFolder(folder) {
    const reader = folder.createReader();
    const promised = (ask) => new Promise((resolve, reject) => ask(resolve, reject));
    try {
      // A reader gives some entries at a time, and none at the end.
      for (;;) {
        const entries = await promised((resolve, reject) => reader.readEntries(resolve, reject));
        if (entries.length === 0) return;
        for (const entry of entries) {
          if (entry.isDirectory) await addFolder(entry);
          else Uploads.add([{ file: await promised((resolve, reject) => entry.file(resolve, reject)), key: entry.fullPath.slice(1) }]);
        }
      }
    } catch (error) {
      note(`The folder ${shown(folder.fullPath)} could not be read: ${error.message}`, true);
    }
  }

  window.addEventListener("beforeunload", (event) => Uploads.isBusy() && event.preventDefault());

  Reactors.isThere().then((isThere) => {
    $("views").hidden = !isThere && location.hash !== "#reactors";
  });
  const first = place();
  find.value = first.prefix;
  Keys.setPlace(first);
  Live.begin();
  view();
})();
