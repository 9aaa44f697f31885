// What the other scripts share: elements made without markup, text for people, questions, and requests.
// Keys and errors come from others, so they become text nodes and attributes, and nothing here parses markup.
"use strict";

const $ = (id) => document.getElementById(id);

/** The path of the root: `/`, or where a proxy has put it. The server's link to it, in the document, is relative. */
const root = new URL($("crumbs-list").querySelector("a").href).pathname;

/** An element. Properties that are functions listen to the event of their name; strings among the children are text. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function icon(name) {
  return makeSvg("svg", { class: "icon", "aria-hidden": "true" }, makeSvg("use", { href: `#icon-${name}` }));
}

/** A key as it is shown: what has no form of its own, or turns the direction of text, shows as an escape. */
function shown(key) {
  const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  return key.replace(hidden, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);
}

/** The address of a key. `.` and `..` are no segments of keys: an address that has them means another. */
function path(key) {
  const segments = key.split("/");
  if (segments.some((segment) => segment === "." || segment === "..")) throw new Error("no file or folder has the name . or ..");
  return root + segments.map(encodeURIComponent).join("/");
}

/** The address of all that is in a folder and below it as one file, or of these names in it alone. */
const zipOf = (folder, names = []) => `${path(folder)}?${new URLSearchParams([["archive", "zip"], ...names.map((name) => ["files", name])])}`;

/** A key beside another one: its name with a number, before its ending. */
function beside(key, number) {
  const [, stem = key, end = ""] = /^(.*[^/])(\.[^./]+|\/)$/s.exec(key) ?? [];
  return `${stem} (${number})${end}`;
}

/** The order of the bytes of two keys in UTF-8. It differs from that of their UTF-16 where surrogates meet U+E000 and up. */
function compare(a, b) {
  const place = (unit) => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);
  const both = Math.min(a.length, b.length);
  for (let i = 0; i < both; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return place(x) - place(y);
  }
  return a.length - b.length;
}

/** So many of these things. */
const plural = (count, thing) => (count === 1 ? `1 ${thing}` : `${Format.exact.format(count)} ${thing}s`);

/** So many folders and files. */
function things(entries) {
  const folders = entries.filter((entry) => entry.isFolder).length;
  const files = entries.length - folders;
  return [folders > 0 && plural(folders, "folder"), (files > 0 || folders === 0) && plural(files, "file")].filter(Boolean).join(" and ");
}

const Format = {
  exact: new Intl.NumberFormat(),
  day: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }),
  date: new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }),
  full: new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" }),

  /** Three digits at least where there are that many, and a prefix of 1024. */
  size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let [value, unit] = [bytes, 0];
    while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
    const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return `${value.toFixed(digits)} ${units[unit]}`;
  },

  bytes: (count) => plural(count, "byte"),

  /** How long ago, for the last week; before that, the day. */
  ago(date) {
    const seconds = (Date.now() - date) / 1000;
    if (seconds < -60 || seconds >= 7 * 86_400) return Format.date.format(date);
    if (seconds < 45) return "just now";
    if (seconds < 3_570) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
    if (seconds < 84_600) return `${Math.round(seconds / 3_600)} h ago`;
    return `${plural(Math.round(seconds / 86_400), "day")} ago`;
  },

  /** How long something takes, roughly. */
  duration(seconds) {
    if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
    return seconds < 5_400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`;
  },
};

/** Says something to those who do not see the page. */
function say(text) {
  $("said").textContent = text;
}

/** Shows a message: an error until it is closed, what `stays` until it is removed, anything else for a while. Returns its element. */
function note(text, isBad = false, stays = false) {
  const close = make("button", { type: "button", class: "quiet only-icon", "aria-label": "Close this message", click: () => box.remove() }, icon("close"));
  const box = make("div", { class: `note ${isBad ? "bad" : stays ? "stays" : ""}` }, make("span", isBad ? { role: "alert" } : {}, text), close);
  placeNotes();
  for (const old of [...$("notes").querySelectorAll(":scope > :not(.stays)")].slice(0, -2)) old.remove();
  $("notes").append(box);
  if (!isBad && !stays) setTimeout(() => box.remove(), 8000);
  return box;
}

/** Puts the messages into the dialog that is on top, which makes all else inert, so that they can be read and closed. */
function placeNotes() {
  const host = document.querySelector("dialog[open]") ?? document.body;
  if ($("notes").parentElement !== host) host.append($("notes"));
}
document.addEventListener("close", placeNotes, true);

let lastQuestion = Promise.resolve();

/** Asks a question in a dialog, after those that were asked before. Resolves to whether it was answered with yes, or with what
 * `other` says, and whether that is for all that follow. */
function ask(question) {
  const answer = lastQuestion.then(() => askNow(question));
  lastQuestion = answer;
  return answer;
}

function askNow({ title, text, facts = [], yes, other = "", no = "Cancel", all = "", settled = () => null }) {
  const known = settled();
  if (known) return known;
  const dialog = $("ask");
  $("ask-title").textContent = title;
  $("ask-text").textContent = text;
  $("ask-facts").replaceChildren(...facts.flatMap(([term, fact]) => [make("dt", {}, term), make("dd", {}, fact)]));
  $("ask-facts").hidden = facts.length === 0;
  $("ask-yes").textContent = yes;
  $("ask-other").textContent = other;
  $("ask-other").hidden = !other;
  $("ask-no").textContent = no;
  $("ask-all").checked = false;
  $("ask-all-text").textContent = all;
  $("ask-all-line").hidden = !all;
  return new Promise((resolve) => {
    let pressed = null;
    for (const id of ["ask-no", "ask-other", "ask-yes"]) {
      $(id).onclick = () => {
        pressed = id;
        dialog.close();
      };
    }
    dialog.onclose = () => resolve({ isYes: pressed === "ask-yes", isOther: pressed === "ask-other", isForAll: $("ask-all").checked });
    dialog.showModal();
    $("ask-no").focus();
  });
}

/** What the server says, in the words of this page: to programs it speaks of values and keys. What it quotes stays. */
function inWords(text) {
  const words = [[/^bad key: /, "this name cannot be: "], [/segments? of (a )?key/g, "name"], [/\b(no|what is no) value/g, "$1 file"], [/\bvalue/g, "file"], [/\bkey/g, "name"], [/\bsegment/g, "name"]];
  const say = (part) => words.reduce((said, [from, to]) => said.replace(from, to), part);
  return text.split(/("(?:[^"\\]|\\.)*")/).map((part, at) => (at % 2 === 0 ? say(part) : part)).join("");
}

/** Why a request failed, in one line: what the server said, or that it cannot be reached. */
class Refused extends Error {
  constructor(status, text) {
    super(inWords(text.trim().slice(0, 500)) || `the server answered ${status}`);
    this.status = status;
    this.body = text;
  }
}

/** An address, absolute: what is relative to a document whose address has a name and a password would have them too, and
 * browsers fetch no such address. */
const absolute = (address) => new URL(address, location.origin).href;

/** A request. Throws `Refused` for an answer that is no success, with status 0 when there is none. */
async function request(address, options = {}) {
  let answer;
  try {
    answer = await fetch(absolute(address), { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server cannot be reached");
  }
  if (!answer.ok) throw new Refused(answer.status, await answer.text().catch(() => ""));
  return answer;
}

/** What the server says to caches of a listing, and of each value that was stored without a Cache-Control. */
let cacheControl = "";

/** A page of the listing below a folder, with its entity tag; `null` where it still has the tag `known`. */
async function list(folder, query, signal, known) {
  const headers = { Accept: "application/json", ...(known && { "If-None-Match": known }) };
  let answer;
  try {
    answer = await request(`${path(folder)}?${new URLSearchParams(query)}`, { headers, signal });
  } catch (error) {
    if (error.status === 304) return null;
    throw error;
  }
  cacheControl = answer.headers.get("Cache-Control") ?? "";
  return { ...(await answer.json()), tag: answer.headers.get("ETag") };
}

/** The fields that are kept with a value, from an answer with it, to be stored again; but for the coding. The Cache-Control of
 * all values is the server's, not the value's: it is sent empty then, which counts as absent. Browsers would send one of
 * their own. */
function storedFields(headers) {
  const kept = ["Content-Type", "Content-Language", "Content-Disposition", "X-Delete-At"].filter((name) => headers.has(name));
  const own = headers.get("Cache-Control") ?? "";
  return { ...Object.fromEntries(kept.map((name) => [name, headers.get(name)])), "Cache-Control": own === cacheControl ? "" : own };
}

/** The coding that a value is stored in, by the headers of an answer with it; `null` for none. One that is for the way alone
 * is in the entity tag too, behind the digits of the version and the length. */
function storedCoding(headers) {
  return /^"[0-9a-f]+(-[0-9a-f]+)?"$/.test(headers.get("ETag") ?? "") ? headers.get("Content-Encoding") : null;
}
