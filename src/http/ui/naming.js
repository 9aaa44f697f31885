// The dialog for a name, a folder, or both: of a file to rename or move, of a new folder. It stays open, with the reason,
// while nothing was changed.
"use strict";

/** A failure that left everything as it was. */
class Unchanged extends Error {}

const Naming = (() => {
  let asked = null;
  /** Of what is under way. */
  let abort = null;

  /** Asks. A name or a folder that is `null` is not asked for. `act` gets what was typed and a signal, and does it. */
  function open(question) {
    asked = question;
    const { title, text, name = null, folder = null, yes } = question;
    $("naming-title").textContent = title;
    $("naming-text").textContent = text;
    $("naming-yes").textContent = yes;
    for (const [id, value] of [["naming-name", name], ["naming-folder", folder]]) {
      $(id).value = value ?? "";
      $(id).parentElement.hidden = value === null;
    }
    $("naming-name").required = name !== null;
    $("naming-folders").replaceChildren(...(folder === null ? [] : Keys.folders().map((value) => make("option", { value }))));
    state("", "");
    $("naming").showModal();
    const field = $(name === null ? "naming-folder" : "naming-name");
    field.focus();
    field.select();
  }

  async function submit() {
    if (abort) return;
    const folder = $("naming-folder").value.replace(/^\/+|\/+$/g, "");
    abort = new AbortController();
    $("naming-yes").disabled = true;
    state("One moment …", "");
    try {
      await asked.act({ name: $("naming-name").value, folder: folder && `${folder}/`, signal: abort.signal });
      $("naming").close();
    } catch (error) {
      if (error instanceof Unchanged && $("naming").open) state("", error.message);
      else {
        $("naming").close();
        note(error.message, true);
      }
    } finally {
      abort = null;
      $("naming-yes").disabled = false;
    }
  }

  function state(text, fault) {
    $("naming-state").textContent = text;
    $("naming-fault").textContent = fault;
  }

  $("naming-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  $("naming-no").addEventListener("click", () => $("naming").close());
  $("naming").addEventListener("close", () => abort?.abort());

  return { open };
})();
