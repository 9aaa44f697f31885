// Renaming. The server has no such method, so it is a copy and a delete, and the dialog says so. Nothing is overwritten and
// nothing of others is lost: the copy is stored only if there is no such key, and the old key deleted only as the version
// that was copied. What remains after a failure is said.
"use strict";

const Rename = (() => {
  let current = null;
  /** Of the rename under way. */
  let abort = null;

  /** A failure that left everything as it was. */
  class Unchanged extends Error {}

  function open(entry) {
    current = entry;
    $("rename-title").textContent = `Rename ${shown(entry.key)}`;
    $("rename-size").textContent = Format.size(entry.size);
    state("", "");
    const field = $("rename-key");
    field.value = entry.key;
    $("rename").showModal();
    field.focus();
    field.setSelectionRange(entry.key.lastIndexOf("/") + 1, entry.key.length);
  }

  async function submit() {
    const [entry, key] = [current, $("rename-key").value];
    if (abort) return;
    if (key === entry.key) return state("", "This is its name already.");
    abort = new AbortController();
    $("rename-yes").disabled = true;
    const names = { old: shown(entry.key), copy: shown(key) };
    try {
      const value = await read(entry, abort.signal);
      await store(value, key, names, abort.signal);
      $("rename").close();
      await remove(entry, names);
    } catch (error) {
      if (error instanceof Unchanged && $("rename").open) state("", error.message);
      else note(error.message, true);
      if (!(error instanceof Unchanged)) $("rename").close();
    } finally {
      abort = null;
      $("rename-yes").disabled = false;
      if (!Live.isLive()) Keys.refresh();
    }
  }

  /** The value and its fields, as they are stored. */
  async function read(entry, signal) {
    state("Reading the file …", "");
    const headers = { "If-Match": entry.etag };
    try {
      const head = await request(path(entry.key), { method: "HEAD", headers, signal });
      const coding = storedCoding(head.headers);
      if (coding) throw new Unchanged(`This file is stored with Content-Encoding ${coding}, which the browser decodes, so the copy would be another file. Nothing was changed.`);
      const answer = await request(path(entry.key), { headers, signal });
      const body = await answer.blob();
      if (body.size !== entry.size) throw new Unchanged("The file arrived with another length. Nothing was changed.");
      return { body, fields: storedFields(answer.headers) };
    } catch (error) {
      if (error instanceof Unchanged) throw error;
      if (signal.aborted) throw new Unchanged("Renaming was cancelled. Nothing was changed.");
      const why = { 404: "it is gone", 412: "someone else has changed it meanwhile" }[error.status] ?? error.message;
      throw new Unchanged(`The file could not be copied: ${why}. Nothing was changed.`);
    }
  }

  async function store({ body, fields }, key, { old, copy }, signal) {
    state("Storing the copy …", "");
    let address;
    try {
      address = path(key);
    } catch (error) {
      throw new Unchanged(error.message);
    }
    try {
      await request(address, { method: "PUT", headers: { ...fields, "If-None-Match": "*" }, body, signal, cache: "default" });
    } catch (error) {
      if (error.status === 412) throw new Unchanged("There is a file with this name already. Nothing was changed.");
      if (error.status > 0) throw new Unchanged(`The copy was not stored: ${error.message}. Nothing was changed.`);
      throw new Error(`${signal.aborted ? "Renaming was cancelled" : "The connection broke off"} while the copy was sent: ${copy} may be stored. ${old} is still there.`);
    }
  }

  async function remove(entry, { old, copy }) {
    try {
      await request(path(entry.key), { method: "DELETE", headers: { "If-Match": entry.etag } });
    } catch (error) {
      if (error.status === 412) throw new Error(`${old} was changed by someone else after it was copied, and is still there. ${copy} has the earlier version.`);
      // Someone else deleted it, which is what was wanted.
      if (error.status !== 404) throw new Error(`${copy} is stored, but ${old} was not deleted: ${error.message}. Both are there${error.status ? "" : ", unless the server had heard of it"}.`);
    }
    note(`${old} is now ${copy}`);
  }

  function state(text, fault) {
    $("rename-state").textContent = text;
    $("rename-fault").textContent = fault;
  }

  $("rename-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  $("rename-no").addEventListener("click", () => $("rename").close());
  // A dialog that closes gives up what is not stored yet. Once the copy is stored, the rename goes on.
  $("rename").addEventListener("close", () => abort?.abort());

  return { open };
})();
