// Where files for uploads come from: two buttons and what is dropped on the page. A file of a folder keeps its path, and the folders
// are made, empty ones too where the browser tells of them.
"use strict";

const Files = (() => {
  /** Files go to the folder that is shown when they are chosen. */
  const into = () => Keys.place().folder;

  $("upload").addEventListener("click", () => $("files").click());
  $("upload-folder").addEventListener("click", () => $("folder").click());
  for (const id of ["files", "folder"]) {
    $(id).addEventListener("change", () => {
      const folder = into();
      const files = [...$(id).files].map((file) => ({ file, key: folder + (file.webkitRelativePath || file.name) }));
      Uploads.add(withFolders(files.sort((a, b) => compare(a.key, b.key)), folder));
      $(id).value = "";
    });
  }

  /** The same files, each after the folders below `into` that it lies in. */
  function* withFolders(files, into) {
    const seen = new Set();
    for (const file of files) {
      for (let end = file.key.indexOf("/", into.length); end >= 0; end = file.key.indexOf("/", end + 1)) {
        const key = file.key.slice(0, end + 1);
        if (!seen.has(key)) yield { key };
        seen.add(key);
      }
      yield file;
    }
  }

  /** Offers what may be done in `folder`. */
  function offer(folder) {
    $("new-file").hidden = !Rights.hasIn("create", folder) || !Rights.hasIn("write", folder);
    $("upload").hidden = !Rights.hasIn("create", folder);
    $("upload-folder").hidden = !("webkitdirectory" in $("folder")) || $("upload").hidden;
    $("files").hidden = $("upload").hidden;
    $("folder").hidden = $("upload-folder").hidden;
  }

  // Entering a child fires before leaving its parent, so the depth is 0 only outside.
  let depth = 0;
  const bringsFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false;
  function cover(change) {
    depth = Math.max(0, depth + change);
    $("drop").hidden = depth === 0 || !Rights.hasBelow("create", into());
    $("drop").firstElementChild.textContent = `Drop files or folders to upload them${into() && ` to ${shown(into())}`}`;
  }
  window.addEventListener("dragenter", (event) => bringsFiles(event) && cover(1));
  window.addEventListener("dragleave", (event) => bringsFiles(event) && cover(-1));
  window.addEventListener("dragover", (event) => bringsFiles(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!bringsFiles(event)) return;
    event.preventDefault();
    cover(-depth);
    // The items are gone once this function is left.
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    Uploads.add(dropped(items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() })), into()));
  });

  async function* dropped(items, folder) {
    for (const { entry, file } of items) {
      if (entry?.isDirectory) yield* below(entry, folder);
      else if (file) yield { file, key: folder + file.name };
    }
  }

  /** A dropped folder, and the files and folders in and below it. They are found as they are asked for, however many there are. */
  async function* below(entry, folder) {
    yield { key: `${folder}${entry.fullPath.slice(1)}/` };
    const reader = entry.createReader();
    for (;;) {
      // A reader gives some entries at a time, and none at the end.
      const some = await read(entry, (resolve, reject) => reader.readEntries(resolve, reject));
      if (!some || some.length === 0) return;
      for (const each of some) {
        if (each.isDirectory) {
          yield* below(each, folder);
          continue;
        }
        const file = await read(each, (resolve, reject) => each.file(resolve, reject));
        if (file) yield { file, key: folder + each.fullPath.slice(1) };
      }
    }
  }

  /** What `ask` gives of an entry. What cannot be read is said, and the rest goes on. */
  async function read(entry, ask) {
    try {
      return await new Promise(ask);
    } catch (error) {
      const name = shown(entry.fullPath.slice(1));
      note(entry.isDirectory ? `The browser could not read all of ${name}/, maybe for a name that is not UTF-8. What it did read is uploaded.` : `${name} could not be read: ${error.message}`, true);
      return null;
    }
  }

  return { offer };
})();
