// Editing a text in place, within the preview. It is stored only as the version that was opened (If-Match): what someone else
// has stored meanwhile is shown beside, and nothing is lost unseen. Bytes that are not edited stay as they are: the mark at
// the beginning, the kind of the line ends, and the fields that are kept with the file.
"use strict";

const Edit = (() => {
  const LARGEST = 1 << 20;

  /** The file that may be edited. */
  let entry = null;
  /** What is edited: on which condition it is stored, with which fields, line ends and beginning; `null` while nothing is. */
  let opened = null;
  let isSaving = false;

  /** The file that is shown may be edited if it has no coding and if what is known of it is a text in UTF-8, which `text` is; `null`
   * where it is none. */
  function offer(of, isPlain, text) {
    entry = of;
    const may = (right) => Rights.has(right, of.key);
    $("preview-edit").hidden = !isPlain || !isEditable(text) || of.size > LARGEST || !may("read") || !may("write");
  }

  function isEditable(text) {
    try {
      lineEnds(text.replace(/\r$/, "")); // its line end may be cut in two
      return true;
    } catch {
      return false;
    }
  }

  /** Makes a new text, and opens it. */
  function create() {
    const { folder } = Keys.place();
    Naming.open({
      title: `New text file${folder && ` in ${shown(folder)}`}`,
      text: "It is empty, and is opened to be written.",
      name: ".txt",
      yes: "Make",
      async act({ name, signal }) {
        const key = folder + name;
        const headers = { "If-None-Match": "*", "Cache-Control": "", ...(!name.includes(".") && { "Content-Type": "text/plain" }) };
        try {
          const answer = await request(path(key), { method: "PUT", headers, body: new Blob(), signal, cache: "default" });
          Keys.apply([{ op: "put", key, size: 0, etag: answer.headers.get("ETag") }]);
        } catch (error) {
          if (error.status === 412) throw new Unchanged("There is a file with this name already.");
          throw error.status === 0 || signal.aborted ? new Error(`Whether ${shown(key)} was made is not known: the connection broke off.`) : new Unchanged(`It was not made: ${error.message}.`);
        }
        return async () => {
          await Preview.open(key);
          if (!$("preview-edit").hidden) await begin();
        };
      },
    });
    $("naming-name").setSelectionRange(0, 0);
  }

  async function begin() {
    try {
      const { text, fields } = await read(entry);
      opened = { condition: { "If-Match": entry.etag }, fields, ends: lineEnds(text), before: "" };
      $("edit-text").value = text;
      opened.before = $("edit-text").value;
      show(true);
      theirs(null);
      $("edit-text").focus();
      $("edit-text").setSelectionRange(0, 0);
      $("edit-text").scrollTop = 0;
    } catch (error) {
      note(`${shown(entry.key)} cannot be edited: ${error.status === 412 ? "it has changed; look at it again" : error.message}`, true);
    }
  }

  /** The whole text of this version. */
  async function read({ key, etag }) {
    const answer = await request(path(key), { headers: { "If-Match": etag } });
    const bytes = await answer.arrayBuffer();
    try {
      return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), fields: storedFields(answer.headers) };
    } catch {
      throw new Error("it is no text in UTF-8");
    }
  }

  /** How its lines end; the field for texts knows one end alone. */
  function lineEnds(text) {
    const others = text.replaceAll("\r\n", "");
    if (others.includes("\r") || (others !== text && others.includes("\n"))) throw new Error("its lines end in different ways, which an edit would change");
    return others === text ? "\n" : "\r\n";
  }

  async function save() {
    if (isSaving) return;
    isSaving = true;
    $("edit-save").disabled = true;
    const { key } = entry;
    const body = new Blob([$("edit-text").value.replaceAll("\n", opened.ends)]);
    try {
      const answer = await request(path(key), { method: "PUT", headers: { ...opened.fields, ...opened.condition }, body, cache: "default" });
      const etag = answer.headers.get("ETag");
      end();
      Keys.apply([{ op: "put", key, size: body.size, etag }]);
      say(`${shown(key)} is saved`);
      Preview.again();
    } catch (error) {
      if (error.status === 412) await clash(key);
      else fault(`Not saved: ${error.message}`);
    } finally {
      isSaving = false;
      $("edit-save").disabled = false;
    }
  }

  /** Someone else has stored or deleted the file meanwhile: what is there now is shown beside, and a second save is on that. */
  async function clash(key) {
    try {
      const { keys } = await list("", { prefix: key, limit: 1 });
      const now = keys[0]?.key === key ? keys[0] : null;
      const { text } = now ? await read(now) : { text: "" };
      opened.condition = now ? { "If-Match": now.etag } : { "If-None-Match": "*" };
      theirs(text);
      const what = now ? "saved this file meanwhile: what is there now is beside. Save yours to replace it" : "deleted this file meanwhile. Save yours to store it anew";
      fault(`Not saved: someone else has ${what}.`);
    } catch (error) {
      fault(`Not saved: someone else has changed this file meanwhile, and it cannot be shown: ${error.message}`);
    }
  }

  function fault(text) {
    $("edit-fault").textContent = text;
  }

  /** Shows this text beside, or none. */
  function theirs(text) {
    fault("");
    $("edit-theirs").hidden = text === null;
    $("edit-take").hidden = text === null;
    $("edit-their-text").textContent = text ?? "";
    $("edit-save").textContent = text === null ? "Save" : "Save mine";
  }

  function take() {
    const text = $("edit-their-text").textContent;
    try {
      opened.ends = lineEnds(text);
    } catch (error) {
      return fault(error.message);
    }
    $("edit-text").value = text;
    opened.before = $("edit-text").value;
    theirs(null);
    $("edit-text").focus();
  }

  function show(isEditing) {
    $("edit").hidden = !isEditing;
    $("preview-body").hidden = isEditing;
    $("preview-buttons").hidden = isEditing;
  }

  function end() {
    opened = null;
    theirs(null);
    show(false);
  }

  const isDirty = () => opened !== null && $("edit-text").value !== opened.before;

  /** Whether what was typed may be lost. */
  async function leave() {
    if (!isDirty()) return true;
    const answer = await ask({ title: "Discard what you have typed?", text: `${shown(entry.key)} stays as it was.`, yes: "Discard", no: "Go on editing" });
    return answer.isYes;
  }

  $("new-file").addEventListener("click", create);
  $("preview-edit").addEventListener("click", begin);
  $("edit").addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });
  $("edit-cancel").addEventListener("click", () => {
    end();
    Preview.again();
  });
  $("edit-take").addEventListener("click", take);
  window.addEventListener("beforeunload", (event) => isDirty() && event.preventDefault());

  return { offer, end, leave, isDirty };
})();
