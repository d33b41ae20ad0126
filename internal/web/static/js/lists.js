// All lists: a table of a hundred rows at most, sorted and searched by the page's server.

import { el, fill } from './dom.js';
import { get } from './api.js';
import { bytes, duration, integer, plural, rate } from './format.js';
import { facts } from './app.js';

const limit = 100;

const columns = [
  { key: 'name', title: 'List', first: false },
  { key: 'length', title: 'Length', number: true },
  { title: 'Trend', wide: true },
  { key: 'in', title: 'In', number: true },
  { key: 'out', title: 'Out', number: true },
  { key: 'shards', title: 'Shards', number: true, wide: true },
  { key: 'bytes', title: 'Memory', number: true },
  { key: 'ttl', title: 'TTL', number: true, wide: true },
  { title: 'Node', wide: true },
  { title: 'State' },
];

// The choice stays while one list is looked at.
const choice = { match: '', sort: 'name', down: false, offset: 0 };

export function showLists(root, signal) {
  document.title = 'shardedlist';
  const again = () => step().catch(() => {}); // the next poll tells
  let typing;
  const search = el('input', {
    id: 'match', type: 'search', value: choice.match, placeholder: 'part of a name, or queue:*', autocomplete: 'off', spellcheck: 'false',
    input: () => {
      clearTimeout(typing);
      typing = setTimeout(() => { choice.match = search.value; choice.offset = 0; again(); }, 150);
    },
    keydown: (event) => { if (event.key === 'Escape') search.blur(); },
  });
  const summary = el('p', { class: 'muted', 'aria-live': 'polite' }, 'looking…');
  const heads = columns.map((column) => head(column, () => {
    choice.down = choice.sort === column.key ? !choice.down : column.first ?? true;
    choice.sort = column.key;
    choice.offset = 0;
    again();
  }));
  const body = el('tbody');
  const table = el('table', { class: 'rows' }, el('caption', { class: 'hidden' }, 'All lists'), el('thead', {}, el('tr', {}, heads)), body);
  const empty = el('p', { class: 'empty', hidden: true });
  const move = (by) => () => { choice.offset = Math.max(0, choice.offset + by); again(); };
  const back = el('button', { click: move(-limit) }, '← Previous');
  const on = el('button', { click: move(limit) }, 'Next →');
  const where = el('span', { class: 'muted' });
  const pager = el('nav', { class: 'pager', 'aria-label': 'Pages', hidden: true }, back, where, on);
  fill(root,
    el('div', { class: 'bar' }, el('label', { for: 'match' }, 'Find'), search, summary),
    el('div', { class: 'scroll' }, table), empty, pager);

  let asked = 0;
  async function step() {
    const mine = ++asked;
    const query = new URLSearchParams({ match: choice.match, sort: choice.sort, down: choice.down ? 1 : 0, offset: choice.offset, limit });
    const answer = await get(`/api/lists?${query}`, signal);
    if (mine !== asked) return; // a later question has been asked meanwhile
    if (answer.rows.length === 0 && choice.offset > 0) { // there are fewer lists now
      choice.offset = 0;
      return step();
    }
    facts(answer);
    columns.forEach((column, i) => {
      if (column.key) heads[i].setAttribute('aria-sort', choice.sort !== column.key ? 'none' : choice.down ? 'descending' : 'ascending');
    });
    fill(summary, summarize(answer));
    update(body, answer.rows);
    const first = answer.survey.ended === 0;
    empty.hidden = answer.rows.length > 0;
    fill(empty, first ? 'Looking for lists…' : choice.match ? 'No list has such a name.' : 'There are no lists.');
    pager.hidden = answer.total <= limit;
    back.disabled = choice.offset === 0;
    on.disabled = choice.offset + limit >= answer.total;
    fill(where, `${integer(choice.offset + 1)}–${integer(choice.offset + answer.rows.length)} of ${integer(answer.total)}`);
    if (answer.survey.error) throw new Error(answer.survey.error);
  }
  return { step, pause: 2000 };
}

function head(column, choose) {
  const kind = [column.number ? 'number' : '', column.wide ? 'wide' : ''].join(' ').trim();
  if (!column.key) return el('th', { scope: 'col', class: kind || null }, column.title);
  return el('th', { scope: 'col', class: kind || null, 'aria-sort': 'none' }, el('button', { class: 'sort', click: choose }, column.title));
}

function summarize({ survey, total, now }) {
  const parts = [plural(total, 'list')];
  if (total !== survey.lists) parts.push(`of ${integer(survey.lists)}`);
  if (survey.ended === 0) parts.push('so far, still looking');
  else if (now - survey.ended > 10000) parts.push(`· all were looked at ${duration(now - survey.ended)} ago`);
  return parts.join(' ');
}

// update shows the rows. Those that stay keep their elements, and the focus.
function update(body, rows) {
  const known = new Map([...body.children].map((tr) => [tr.dataset.id, tr]));
  const wanted = rows.map((row) => known.get(row.id) ?? makeRow(row));
  if (wanted.length !== body.children.length || wanted.some((tr, i) => tr !== body.children[i])) {
    const focused = document.activeElement;
    body.replaceChildren(...wanted);
    if (focused !== document.activeElement && focused.isConnected) focused.focus();
  }
  rows.forEach((row, i) => fillRow(wanted[i], row));
}

function makeRow(row) {
  return el('tr', { 'data-id': row.id },
    el('th', { scope: 'row' }, el('a', { class: 'name mono', href: `#/list/${row.id}` }, el('bdi', {}, row.name))),
    columns.slice(1).map((column) => el('td', { class: [column.number ? 'number' : '', column.wide ? 'wide' : ''].join(' ').trim() || null, 'data-title': column.title })));
}

function fillRow(tr, row) {
  const [, length, trend, into, out, shards, memory, ttl, node, state] = tr.children;
  fill(length, row.form === 'unknown' ? '–' : integer(row.length));
  fill(trend, sparkline(row.trend ?? []));
  fill(into, rate(row.in, row.exact));
  fill(out, rate(row.out, row.exact));
  fill(shards, row.form === 'plain' || row.form === 'unknown' ? '–' : integer(row.shards));
  fill(memory, bytes(row.bytes));
  fill(ttl, row.ttl_ms ? duration(row.ttl_ms) : '–');
  fill(node, row.parts ? plural(row.parts, 'part') : row.node || '–');
  fill(state, badges(row));
}

// badges are what is to be said of a list in a word.
export function badges(row) {
  const q = row.queue;
  return [
    row.form !== 'sharded' && badge(row.form, row.form === 'unknown' ? 'bad' : row.form === 'spread' ? 'good' : 'warn', row.fault),
    q && badge(q.paused ? 'queue, paused' : 'queue', q.paused ? 'warn' : ''),
    q && q.dead > 0 && badge(`${integer(q.dead)} dead`, 'bad'),
    q && q.leased > 0 && badge(`${integer(q.leased)} leased`),
    q && q.delayed > 0 && badge(`${integer(q.delayed)} delayed`),
    (row.armed || q?.waits) && badge('consumers wait', 'good'),
    row.backlog > 0 && badge(`backlog ${integer(row.backlog)}`, 'warn'),
    row.newcomers > 0 && badge(`${integer(row.newcomers)} beside it`, 'warn'),
    row.strays > 0 && badge(`${integer(row.strays)} stray shards`, 'bad'),
    row.unswept > 0 && badge(`${integer(row.unswept)} to sweep`),
  ].filter(Boolean);
}

export const badge = (text, kind = '', title = null) => el('span', { class: `badge ${kind}`.trim(), title }, text);

// sparkline draws the last lengths of a list.
function sparkline(trend) {
  const [width, height] = [96, 20];
  const low = Math.min(...trend);
  const high = Math.max(...trend);
  if (trend.length < 2) return el('svg', { class: 'spark', width, height, 'aria-hidden': 'true' });
  const y = (n) => (high === low ? height / 2 : 2 + (height - 4) * (1 - (n - low) / (high - low)));
  const points = trend.map((n, i) => `${((i * width) / (trend.length - 1)).toFixed(1)},${y(n).toFixed(1)}`).join(' ');
  return el('svg', { class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' }, el('polyline', { points }));
}
