// A link to share: the server signs it, and by it anybody may read one file for a while. It is shown with its end, and copied.
"use strict";

const Share = (() => {
  const HOUR = 3600;
  const DAY = 24 * HOUR;

  let shared = "";
  /** Counts what was asked for: an answer that is late is of no use. */
  let turn = 0;

  const may = (key) => Rights.has("share", key) && Rights.has("read", key);

  async function open({ key }) {
    shared = key;
    const most = Rights.lasts();
    const times = [HOUR, DAY, 7 * DAY].filter((time) => time < most);
    $("share-lasts").replaceChildren(...[...times, most].map((value) => make("option", { value }, span(value))));
    $("share-lasts").value = Math.min(DAY, most);
    if (!(await sign())) return;
    $("share-title").textContent = `A link to ${shown(key)}`;
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
      const answer = await request(`${path(shared)}?share=${$("share-lasts").value}s`, { method: "POST" });
      const text = await answer.text();
      if (own !== turn) return false;
      // The server may not know its name here, nor the path that a proxy has put in front.
      const { search, searchParams } = new URL(text.trim(), location.origin);
      $("share-link").value = absolute(path(shared)) + search;
      const end = new Date(1000 * Number(searchParams.get("expires")));
      $("share-text").textContent = `Anyone with the link may read the file until ${Format.full.format(end)}.`;
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
  $("share-copy").addEventListener("click", copy);
  $("share-close").addEventListener("click", () => $("share").close());

  return { may, open };
})();
