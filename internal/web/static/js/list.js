// One list: how it is stored, what happens to it, what is in it.

import { el, fill } from './dom.js';
import { get, post } from './api.js';
import { bytes, duration, integer, plural, rate, time } from './format.js';
import { badges } from './lists.js';
import { charts } from './chart.js';
import { picture } from './shards.js';
import { elements } from './elements.js';
import { changes } from './changes.js';
import { facts } from './app.js';

const panel = (title, ...content) => el('section', { class: 'panel' }, el('h2', {}, title), content);

export function showList(root, id, signal) {
  const title = el('h1', { class: 'mono' }, '…');
  const marks = el('span', { class: 'marks' });
  const tiles = el('dl', { class: 'tiles' });
  const fault = el('p', { class: 'fault', hidden: true });
  const shards = picture();
  const history = charts(signal);
  const queue = el('dl', { class: 'tiles' });
  const queuePanel = panel('Queue', queue);
  const content = elements(id, signal);
  const change = changes(id, content.refresh);
  queuePanel.hidden = true;
  fill(root,
    el('nav', { class: 'crumbs', 'aria-label': 'Back' }, el('a', { href: '#/' }, '← All lists')),
    el('div', { class: 'title' }, title, marks, change.node),
    fault, tiles,
    el('div', { class: 'columns' }, panel('Length', history.length), panel('In and out', history.rates)),
    panel('Shards', shards.node), queuePanel, panel('Elements', content.node), panel('Check', check(id)));

  let since = 0;
  async function step() {
    const answer = await get(`/api/list?name=${id}&since=${since}`, signal);
    const { list, now } = answer;
    facts(answer);
    document.title = `${list.name} – shardedlist`;
    if (title.textContent !== list.name) fill(title, el('bdi', {}, list.name));
    fill(marks, badges(list));
    fault.hidden = !list.fault;
    fill(fault, list.fault ?? '');
    fill(tiles, facts_(list).map(([name, value, unit]) => tile(name, value, unit)));
    shards.show(list);
    if (answer.history.length) since = answer.history.at(-1).at;
    history.add(answer.history);
    queuePanel.hidden = !list.queue;
    if (list.queue) fill(queue, jobs(list.queue, now).map(([name, value, unit]) => tile(name, value, unit)));
    content.show(list);
    change.show(list, answer.changes);
  }
  return { step, pause: 1000 };
}

const tile = (name, value, unit) => el('div', {}, el('dt', {}, name), el('dd', {}, value, unit && el('small', {}, ` ${unit}`)));

function facts_(list) {
  const sharded = list.form !== 'plain' && list.form !== 'unknown';
  return [
    ['Length', integer(list.length), list.length === 1 ? 'element' : 'elements'],
    ['In', rate(list.in, list.exact)],
    ['Out', rate(list.out, list.exact)],
    ['Memory', bytes(list.bytes), list.bytes ? 'estimated' : ''],
    sharded && ['Shards', integer(list.shards), list.capacity ? `of ${list.parts ? 'about' : 'up to'} ${integer(list.capacity)}` : ''],
    list.parts ? ['Spread over', plural(list.parts, 'part')] : ['Cluster slot', String(list.slot), list.nodes.length > 1 && list.at >= 0 ? `on ${list.nodes[list.at]}` : ''],
    ['Expires', list.ttl_ms ? `in ${duration(list.ttl_ms)}` : 'never'],
    ['Who waits', list.armed || list.queue?.waits ? 'consumers' : 'nobody', waiters(list)],
  ].filter(Boolean);
}

// Redis does not tell on which key a client waits: the number is that of all on the server.
function waiters(list) {
  const seen = list.looked_ms >= 0 ? `seen ${duration(list.looked_ms)} ago; ` : '';
  return list.blocked < 0 ? seen : `${seen}${plural(list.blocked, 'client')} blocked on the server`;
}

function jobs(q, now) {
  return [
    ['Waiting', integer(q.waiting), q.oldest ? `next one pushed ${duration(now - q.oldest)} ago` : ''],
    ['Delayed', integer(q.delayed)],
    ['Leased', integer(q.leased)],
    ['Dead', integer(q.dead)],
    ['Done', integer(q.done), 'in all'],
    ['Failed attempts', integer(q.failed), 'in all'],
    ['Buried', integer(q.buried), 'in all'],
    ['Consumers', q.paused ? 'paused' : 'may take jobs'],
  ];
}

function check(id) {
  const button = el('button', { click: run }, 'Check this list');
  const result = el('div', { role: 'status' });
  async function run() {
    button.disabled = true;
    fill(result, 'Checking. This scans the keys of the server, slowly, so that nobody notices.');
    try {
      const { faults, took_ms: took, now } = await post(`/api/check?name=${id}`);
      const when = `${time(now)}, in ${duration(took)}`;
      if (faults.length === 0) fill(result, el('p', { class: 'good' }, `Sound: no fault was found. ${when}`));
      else fill(result, el('p', { class: 'fault' }, `${plural(faults.length, 'fault')}. ${when}`), el('ul', {}, faults.map((text) => el('li', { class: 'mono' }, text))));
    } catch (err) {
      fill(result, el('p', { class: 'fault' }, err.message));
    }
    button.disabled = false;
  }
  return [el('p', { class: 'muted' }, 'Verifies that the shards are exactly those that the list knows, and each is as full as it has to be.'), button, result];
}
