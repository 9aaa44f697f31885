// A link to share: the server signs it, and by it anybody may read one file for a while. It is shown with its end, and copied.
"use strict";

const Share = (() => {
  const may = (key) => Rights.has("share", key) && Rights.has("read", key);

  async function open({ key }) {
    try {
      const answer = await request(`${path(key)}?share`, { method: "POST" });
      // The server may not know its name here, nor the path that a proxy has put in front.
      const { search, searchParams } = new URL((await answer.text()).trim(), location.origin);
      $("share-link").value = absolute(path(key)) + search;
      const end = new Date(1000 * Number(searchParams.get("expires")));
      $("share-text").textContent = `Anyone with the link may read the file until ${Format.full.format(end)}.`;
    } catch (error) {
      note(`No link to ${shown(key)} was made: ${error.message}`, true);
      return;
    }
    $("share-title").textContent = `A link to ${shown(key)}`;
    $("share").showModal();
    copy();
  }

  /** Copies the link. Only pages of https have a clipboard, so this takes what is selected. */
  function copy() {
    $("share-link").focus();
    $("share-link").select();
    $("share-state").textContent = document.execCommand("copy") ? "It is copied." : "Copy it from the field.";
  }

  $("share-copy").addEventListener("click", copy);
  $("share-close").addEventListener("click", () => $("share").close());

  return { may, open };
})();
