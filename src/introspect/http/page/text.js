'use strict';
// Asks once a second for the state and for what is new in the history of the server.
const base = location.pathname.replace(/\/ui\/?$/, '');
const PAGE = 50;
const $ = id => document.getElementById(id);

const STATUSES = {
  accepting: ['✓', 'good'], saturated: ['▲', 'warn'], throttled: ['◆', 'warn'], full: ['■', 'bad'],
  no_slots: ['○', 'bad'], no_active_workers: ['✕', 'bad'], unavailable: ['!', 'bad'],
};
for (const status of Object.keys(STATUSES)) $('status').add(new Option(status.replaceAll('_', ' '), status));

// ---- text -------------------------------------------------------------------------------------------------------
const whole = n => Math.round(n).toLocaleString('en');
const rate = n => n >= 100 ? whole(n) : n.toFixed(n > 0 && n < 10 ? 1 : 0);
const percent = part => `${Math.round(part * 100)} %`;
function seconds(s) {
  if (s === undefined || s === null) return '–';
  if (s === 0) return '0';
  if (s < 0.001) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms`;
  return s < 90 ? `${s.toFixed(s < 10 ? 1 : 0)} s` : `${(s / 60).toFixed(0)} min`;
}

// ---- elements: changed in place, so that focus and selection stay where they are --------------------------------
function make(tag, props = {}, ...children) {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children);
  return element;
}
function shape(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function resize(parent, count, create) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(create());
}
/** Rows of cells; each is text, or a function that fills its cell. */
function fill(table, rows, classes) {
  const body = table.tBodies[0];
  resize(body, rows.length, () => make('tr', {}, ...classes.map(name => make('td', { className: name }))));
  rows.forEach((cells, r) => cells.forEach((cell, c) => {
    const element = body.rows[r].cells[c];
    typeof cell === 'function' ? cell(element) : say(element, cell);
  }));
}
const asStatus = (status, lately, store) => cell => {
  const [icon, tone] = STATUSES[status] ?? ['?', 'bad'];
  cell.className = `status ${status === 'accepting' && (lately || store) ? 'warn' : tone}`;
  const more = [lately && lately !== status && `lately ${lately}`, store && `without store: ${STORES[store] ?? store}`].filter(Boolean);
  say(cell, [`${icon} ${status.replaceAll('_', ' ')}`, ...more].join(', '));
};
const STORES = { refuse: 'refuses', local_share: 'admits a local share', admit: 'admits all' };
/** A name from a caller: isolated, and cut. */
const asName = text => cell => {
  if (cell.firstElementChild?.tagName !== 'BDI') cell.replaceChildren(make('bdi'));
  say(cell.firstElementChild, cut(text));
  cell.title = text.length > LONGEST ? text : '';
};
/** A cell with a link to the view of a partition or of a label, and which of both it is, where that is not clear. */
const asLink = (text, hash, empty, kind) => cell => {
  if (!text) return say(cell, empty);
  if (cell.firstChild?.tagName !== 'A') cell.replaceChildren(make('a', {}, make('bdi')));
  if (cell.firstChild.getAttribute('href') !== hash) cell.firstChild.setAttribute('href', hash);
  say(cell.firstChild.firstChild, cut(text));
  cell.title = text.length > LONGEST ? text : '';
  if (!kind) return;
  if (!cell.children[1]) cell.append(' ', make('small', { className: 'soft' }));
  say(cell.children[1], kind);
};
const LONGEST = 80;
const fullName = (namespace, name) => [namespace, name].filter(Boolean).join(': ');
/** What runs there, and since when; a server of an earlier version does not say. */
const identity = it => it ? cut([it.version, `up since ${new Date(it.started_unix_seconds * 1e3).toLocaleString()}`].filter(Boolean).join(', ')) : '';
const cut = text => text.length > LONGEST ? `${[...text].slice(0, LONGEST).join('')}…` : text;

