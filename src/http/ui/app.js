// Puts the page together: the views, and the place in the listing that the address tells.
"use strict";

(() => {
  document.documentElement.classList.add("scripted");

  const DEBOUNCE = 200;
  const isActivity = () => location.hash === "#activity";

  /** Shows a place, and has the address tell it. */
  function go(next, isNew) {
    window.history[isNew ? "pushState" : "replaceState"]({ back: next.back }, "", Place.address(next) + location.hash);
    turnTo(next);
  }

  function turnTo(next) {
    const isOther = Place.base(next) !== Place.base(Keys.place());
    Keys.setPlace(next);
    Place.crumbs(next);
    Files.offer(next.folder);
    Folders.offer(next.folder);
    title();
    if (isOther) Live.begin();
    else Keys.load();
  }

  // A link to a folder or to a file is followed here, unless it is for another tab or window.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-folder], a[data-key]");
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if ("key" in link.dataset) {
      Preview.open(link.dataset.key);
      return;
    }
    find.value = "";
    go(Place.of(link.dataset.folder), true);
    window.scrollTo(0, 0);
  });

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
    const { folder, find: before } = Keys.place();
    if (find.value !== before) go({ ...Place.of(folder), find: find.value }, false);
  }

  function page(next) {
    go(next, true);
    $("keys").scrollIntoView({ block: "nearest" });
  }
  $("next").addEventListener("click", () => Keys.turn(1) || page(Keys.nextPlace()));
  $("previous").addEventListener("click", () => Keys.turn(-1) || page(Keys.previousPlace()));

  window.addEventListener("popstate", () => {
    const next = Place.here();
    if (Place.address(next) !== Place.address(Keys.place())) {
      find.value = next.find;
      turnTo(next);
    }
    Preview.follow(Place.viewed());
  });

  function view() {
    $("keys-view").hidden = isActivity();
    $("reactors-view").hidden = !isActivity();
    for (const [id, isCurrent] of [["to-keys", !isActivity()], ["to-reactors", isActivity()]]) {
      if (isCurrent) $(id).setAttribute("aria-current", "page");
      else $(id).removeAttribute("aria-current");
    }
    title();
    Reactors.show(isActivity());
  }

  function title() {
    const what = isActivity() ? "Activity" : shown(Keys.place().folder);
    const name = $("page-name").textContent;
    document.title = what ? `${what} – ${name}` : name;
  }
  window.addEventListener("hashchange", view);

  Reactors.isThere().then((isThere) => {
    $("views").hidden = !isThere && !isActivity();
  });
  const first = Place.here();
  find.value = first.find;
  Keys.setPlace(first);
  Place.crumbs(first);
  Files.offer(first.folder);
  Folders.offer(first.folder);
  Live.begin();
  view();
  Preview.follow(Place.viewed());
})();
