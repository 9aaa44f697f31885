// The uploads that are under way, or broke off: each with its address at the server, kept by this browser. So one goes on
// where it stopped after the page was loaded anew, once the same file is chosen again. A page cannot read a file by itself.
"use strict";

const Unfinished = (() => {
  const STORED = `data-server uploads ${root}`;
  const MOST = 100;
  /** Another tab that sends says so within this time, in milliseconds. */
  const SIGN = 15_000;

  /** What is kept, by what tells the file and its key apart. Without a store there is nothing to go on with. */
  function all() {
    try {
      return JSON.parse(localStorage.getItem(STORED)) ?? {};
    } catch {
      return {};
    }
  }

  function put(records) {
    try {
      localStorage.setItem(STORED, JSON.stringify(Object.fromEntries(Object.entries(records).slice(-MOST))));
    } catch {
      // The upload goes on, and is not found again.
    }
  }

  /** What tells that a file is the same: a page sees no more of it than this. */
  const name = ({ key, file }) => JSON.stringify([key, file.name, file.size, file.lastModified]);

  /** Keeps where the upload is and how far, on this condition. */
  function keep(upload, url, condition) {
    put({ ...all(), [name(upload)]: { key: upload.key, size: upload.file.size, sent: upload.sent, url, condition: JSON.stringify(condition), at: Date.now() } });
  }

  /** Where the upload is, on this condition; another condition is another upload. */
  function of(upload, condition) {
    const record = all()[name(upload)];
    return record?.condition === JSON.stringify(condition) ? record.url : null;
  }

  function forget(id) {
    const { [id]: _, ...others } = all();
    put(others);
  }

  /** The unfinished uploads that no page sends now. */
  const waiting = () => Object.entries(all()).filter(([, { at }]) => Date.now() - at > SIGN).map(([id, record]) => ({ ...record, id }));

  /** This page sends nothing more. */
  window.addEventListener("pagehide", () => {
    const records = all();
    for (const [id, record] of Object.entries(records)) if (mine.has(id)) Object.assign(record, { sent: mine.get(id).sent, at: 0 });
    put(records);
  });
  const mine = new Map();

  return {
    keep(upload, url, condition) {
      mine.set(name(upload), upload);
      keep(upload, url, condition);
    },
    of,
    forget: (upload) => forget(name(upload)),
    discard: forget,
    waiting,
    /** The id of the record of a file under a key. */
    name,
  };
})();
