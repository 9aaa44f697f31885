// Puts the page together: the views, and the place in the listing that the address tells.
"use strict";

(() => {
  document.documentElement.classList.add("scripted");

  const DEBOUNCE = 200;

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
    title();
    if (isOther) Live.begin();
    else Keys.load();
  }

  // A link to a folder is followed here, unless it is for another tab or window.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-folder]");
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
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
    const prefix = find.value;
    if (prefix !== Keys.place().prefix) go({ ...Keys.place(), prefix, after: "", back: [] }, false);
  }

  function page(next) {
    go(next, true);
    $("keys").scrollIntoView({ block: "nearest" });
  }
  $("next").addEventListener("click", () => page(Keys.nextPlace()));
  $("previous").addEventListener("click", () => page(Keys.previousPlace()));

  window.addEventListener("popstate", () => {
    const next = Place.here();
    if (Place.address(next) === Place.address(Keys.place())) return; // the view changed, not the place
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
    title();
    Reactors.show(isReactors);
  }

  function title() {
    const what = location.hash === "#reactors" ? "Reactors" : shown(Keys.place().folder);
    document.title = what ? `${what} – data-server` : "data-server";
  }
  window.addEventListener("hashchange", view);

  Reactors.isThere().then((isThere) => {
    $("views").hidden = !isThere && location.hash !== "#reactors";
  });
  const first = Place.here();
  find.value = first.prefix;
  Keys.setPlace(first);
  Place.crumbs(first);
  Files.offer(first.folder);
  Live.begin();
  view();
})();
