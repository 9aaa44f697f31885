// A link to share: the server signs it, and by it anybody may read one file or folder for a while, or hand files in. It is shown with its end, and copied.
"use strict";

const Share = (() => {
  const HOUR = 3600;
  const DAY = 24 * HOUR;

  let shared = "";
  /** Counts what was asked for: an answer that is late is of no use. */
  let turn = 0;

  const isFolder = (key) => key === "" || key.endsWith("/");
  const may = (key) => Rights.has("share", key) && Rights.has("read", key);

  async function open({ key }) {
    shared = key;
    const most = Rights.lasts();
    const times = [HOUR, DAY, 7 * DAY].filter((time) => time < most);
    $("share-lasts").replaceChildren(...[...times, most].map((value) => make("option", { value }, span(value))));
    $("share-lasts").value = Math.min(DAY, most);
    $("share-for").hidden = !isFolder(key) || !Rights.has("create", key);
    $("share-may").value = "";
    if (!(await sign())) return;
    $("share-title").textContent = `A link to ${shown(key) || "all files"}`;
    $("share").showModal();
    copy();
  }

  /** A time as people say it. */
  function span(seconds) {
    const [unit, name] = [[DAY, "day"], [HOUR, "hour"], [60, "minute"], [1, "second"]].find(([unit]) => seconds % unit === 0);
    return plural(seconds / unit, name);
  }

  /** Has the server sign a link for the time that is chosen. Resolves to whether that is shown. */
  async function sign() {
    turn += 1;
    const own = turn;
    // A link for another time is not to be copied meanwhile.
    $("share-link").value = "";
    try {
      const handIn = $("share-may").value;
      const answer = await request(`${path(shared)}?share=${$("share-lasts").value}s${handIn}`, { method: "POST" });
      const text = await answer.text();
      if (own !== turn) return false;
      // The server may not know its name here, nor the path that a proxy has put in front.
      const { pathname, search, searchParams } = new URL(text.trim(), location.origin);
      let expires = searchParams.get("expires");
      if (isFolder(shared)) {
        // The link begins the path, and has its terms in it, a line each.
        const token = pathname.slice(pathname.indexOf("/-/link/") + 1);
        $("share-link").value = absolute(path("") + token);
        expires = atob(token.split("/")[2].split(".")[0].replaceAll("-", "+").replaceAll("_", "/")).split("\n")[1];
      } else {
        $("share-link").value = absolute(path(shared)) + search;
      }
      const end = Format.full.format(new Date(1000 * Number(expires)));
      const what = handIn ? "put files into the folder, and see and replace none," : `read the ${isFolder(shared) ? "folder" : "file"}`;
      $("share-text").textContent = `Anyone with the link may ${what} until ${end}.`;
      return true;
    } catch (error) {
      if (own !== turn) return false;
      $("share").close();
      note(`No link to ${shown(shared)} was made: ${error.message}`, true);
      return false;
    }
  }

  /** Copies the link, once it is there. Only pages of https have a clipboard, so this takes what is selected. */
  function copy() {
    if ($("share-link").value === "") return;
    $("share-link").focus();
    $("share-link").select();
    $("share-state").textContent = document.execCommand("copy") ? "It is copied." : "Copy it from the field.";
  }

  $("share-lasts").addEventListener("change", async () => {
    if (await sign()) $("share-state").textContent = `It is another link now, for ${$("share-lasts").selectedOptions[0].textContent}, and not copied yet.`;
  });
  $("share-may").addEventListener("change", async () => {
    if (await sign()) $("share-state").textContent = "It is another link now, and not copied yet.";
  });
  $("share-folder").addEventListener("click", ({ target }) => open({ key: target.dataset.folder }));
  $("share-copy").addEventListener("click", copy);
  $("share-close").addEventListener("click", () => $("share").close());

  return { may, open };
})();
