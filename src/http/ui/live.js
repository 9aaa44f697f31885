// Keeps the table up to date: over a WebSocket while there is one, else by reading the listing again now and then. What
// other programs change in the directory is told by no socket, so the listing is looked at with one, too, but seldom.
// A connection that opens reads the listing once it is open, so nothing that changed while there was none is missed.
"use strict";

const Live = (() => {
  const POLL = 5_000;
  const LOOK = 7_000;
  const MANY = 2_000;

  let socket = null;
  let state = "connecting";
  let attempts = 0;
  let looked = 0;
  /** How long the table took for the last changes, in milliseconds. The longer, the more are shown together. */
  let drawing = 0;
  /** When changes were shown last, and how long the next ones wait. */
  let [flushed, pace] = [0, 100];
  let retryTimer = 0;
  let pollTimer = 0;
  let flushTimer = 0;
  /** The last change of each key that is not in the table yet. */
  let waiting = new Map();
  let isTooMuch = false;

  const TEXTS = {
    connecting: ["Connecting", ""],
    live: ["Live", "Changes show as they happen, and those that other programs make in the directory within 10 seconds"],
    polling: ["Live updates are off", "The list is read again every few seconds"],
    offline: ["Offline, trying again", "The server cannot be reached"],
  };

  function become(next) {
    if (state !== next) {
      $("state-text").textContent = TEXTS[next][0];
      $("state").title = TEXTS[next][1];
      $("state").dataset.state = next;
    }
    state = next;
  }

  /** Watches the keys of the table, whose prefix may have changed, and loads the table. */
  function begin() {
    if (state === "polling") {
      Keys.load();
      return;
    }
    connect();
  }

  /** A socket with the changes of what begins with `prefix`. */
  const open = (prefix) => new WebSocket(`${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${root}-/watch?${new URLSearchParams({ prefix })}`);

  function connect() {
    clearTimeout(retryTimer);
    socket?.close();
    forget();
    const prefix = Place.base(Keys.place());
    if (!Rights.hasBelow("watch", prefix)) {
      lost();
      return;
    }
    const mine = open(prefix);
    socket = mine;
    const patience = setTimeout(() => mine.close(), 5_000);
    mine.onopen = () => {
      clearTimeout(patience);
      if (socket !== mine) return;
      attempts = 0;
      clearTimeout(pollTimer);
      become("live");
      Keys.load();
    };
    mine.onmessage = (event) => socket === mine && hear(event.data);
    mine.onclose = () => {
      clearTimeout(patience);
      if (socket === mine) lost();
    };
  }

  /** Without a socket: is the server there at all? Then its listing is read now and then, and the socket tried seldom. */
  async function lost() {
    socket = null;
    forget();
    const isThere = await Keys.load({ isQuiet: true });
    if (socket !== null) return;
    become(isThere === false ? "offline" : "polling");
    if (state === "polling") poll();
    else clearTimeout(pollTimer);
    const most = state === "polling" ? 60_000 : 15_000;
    const wait = Math.min(most, 500 * 2 ** attempts) * (0.5 + Math.random() / 2);
    attempts += 1;
    clearTimeout(retryTimer);
    retryTimer = setTimeout(connect, wait);
  }

  /** Reads the listing again after a while that grows with what a listing costs. */
  function poll(cost = 0) {
    clearTimeout(pollTimer);
    pollTimer = setTimeout(async () => {
      if (state !== "polling") return;
      if (document.hidden) return;
      const begun = performance.now();
      if ((await Keys.load({ isQuiet: true })) === false) become("offline");
      else poll(performance.now() - begun);
    }, Math.max(POLL, 20 * cost));
  }

  setInterval(() => {
    // A search reads too much for that.
    if (state !== "live" || document.hidden || Keys.isLoading() || Keys.place().find || performance.now() - looked < 20 * Keys.cost()) return;
    looked = performance.now();
    Keys.load({ isQuiet: true, isLook: true });
  }, LOOK);

  function hear(data) {
    let change;
    try {
      change = JSON.parse(data);
    } catch {
      return;
    }
    if (change.op === "resync") isTooMuch = true;
    else if (typeof change.key === "string") {
      if (typeof change.from === "string") waiting.set(change.from, { op: "delete", key: change.from }); // it moved
      waiting.set(change.key, change);
    }
    if (waiting.size > MANY) isTooMuch = true;
    if (isTooMuch) waiting.clear();
    flushTimer ||= setTimeout(flush, Math.max(pace, 5 * drawing));
  }

  /** Changes that arrive while the listing is read come after it: they may be newer than what it says. */
  function flush() {
    flushTimer = 0;
    if (Keys.isLoading()) {
      flushTimer = setTimeout(flush, 100);
      return;
    }
    if (isTooMuch) {
      isTooMuch = false;
      Keys.load({ isQuiet: true });
      return;
    }
    const changes = [...waiting.values()];
    waiting.clear();
    // While changes keep coming, more and more are shown together: a table takes as long for one row more as for many.
    const begun = performance.now();
    pace = begun - flushed < 2 * pace + 200 ? Math.min(1_000, 2 * pace) : 100;
    flushed = begun;
    Keys.apply(changes);
    drawing = performance.now() - begun;
  }

  function forget() {
    waiting = new Map();
    isTooMuch = false;
    clearTimeout(flushTimer);
    flushTimer = 0;
  }

  /** Now is a good moment: the page is seen again, or the network is back. */
  function hurry() {
    if (document.hidden || socket !== null) return;
    attempts = 0;
    connect();
  }

  document.addEventListener("visibilitychange", hurry);
  window.addEventListener("online", hurry);

  return { begin, open, isLive: () => state === "live" };
})();
