// The dialog for a name, a folder, or both: of a file to rename, move or copy, of a new folder. It stays open, with the reason,
// while nothing was changed.
"use strict";

/** A failure that left everything as it was. */
class Unchanged extends Error {}

const Naming = (() => {
  let asked = null;
  /** Of what is under way. */
  let abort = null;

  /** Asks. A name or a folder that is `null` is not asked for. `act` gets what was typed, whether it was answered by what `other` says, and
   * a signal, and does it; what it resolves to is done once the dialog is closed. Of a name with an ending, what is before is selected. */
  function open(question) {
    asked = question;
    const { title, text, name = null, folder = null, yes, other = "" } = question;
    $("naming-title").textContent = title;
    $("naming-text").textContent = text;
    $("naming-yes").textContent = yes;
    $("naming-other").textContent = other;
    $("naming-other").hidden = !other;
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
    if (name?.lastIndexOf(".") > 0) field.setSelectionRange(0, name.lastIndexOf("."));
  }

  async function submit(isOther) {
    if (abort) return;
    const folder = $("naming-folder").value.replace(/^\/+|\/+$/g, "");
    abort = new AbortController();
    $("naming-yes").disabled = true;
    state("One moment …", "");
    try {
      const then = await asked.act({ name: $("naming-name").value, folder: folder && `${folder}/`, isOther, signal: abort.signal });
      $("naming").close();
      then?.();
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
    submit(false);
  });
  $("naming-other").addEventListener("click", () => $("naming-form").reportValidity() && submit(true));
  $("naming-no").addEventListener("click", () => $("naming").close());
  $("naming").addEventListener("close", () => abort?.abort());

  return { open };
})();
