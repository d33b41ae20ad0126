// The row of shards as a picture. A shard of a list that is spread has the colour of its node, and two while its slot moves.

import { el, fill } from './dom.js';
import { integer, plural } from './format.js';

const [width, height, gap] = [14, 40, 3];
const atMost = 160; // shards in the picture, half of them from each end
const colours = 8;

const colour = (node) => (node < 0 ? 'nowhere' : `node-${node % colours}`);
const mod = (id, n) => ((id % n) + n) % n;

export function picture() {
  const row = el('div', { class: 'shards' });
  const caption = el('p', { class: 'muted' });
  const placed = el('div', {});
  let seen = '';
  const show = (list) => {
    const now = JSON.stringify([list.form, list.first, list.last, list.head, list.tail, list.capacity, list.placed, list.nodes, list.at]);
    if (now === seen) return;
    seen = now;
    fill(caption, describe(list));
    fill(row, ...cells(list));
    fill(placed, list.placed ? spreadOver(list) : null);
  };
  return { node: el('div', {}, caption, row, placed), show };
}

function describe(list) {
  if (!list.exists || list.length === 0) return 'The list is empty: there is no shard.';
  if (list.form === 'plain' || list.form === 'restored') return 'A plain list of Redis, in one key.';
  const about = `${list.placed ? 'about' : 'up to'} ${integer(list.capacity)}`; // a push of several may overfill a shard of a list that is spread
  if (list.shards === 1) return `One shard of ${about} elements, with ${integer(list.head)}.`;
  if (list.head < 0) return `${plural(list.shards, 'shard')} of ${about} elements.`;
  const inner = list.shards > 2 ? `, ${list.placed ? 'between them' : 'full between them'} ${integer(list.shards - 2)}` : '';
  return `${plural(list.shards, 'shard')} of ${about} elements: at the left end ${integer(list.head)}, at the right end ${integer(list.tail)}${inner}.`;
}

// cells are the shards from left to right. Those in the middle of a long list are left out.
function cells(list) {
  if (list.length === 0 || list.form === 'plain' || list.form === 'restored') return [];
  const half = atMost / 2;
  const ids = [];
  for (let id = list.first; id <= list.last; id++) {
    if (list.shards > atMost && id === list.first + half) {
      ids.push(null);
      id = list.last - half + 1;
    }
    ids.push(id);
  }
  return ids.map((id) => (id === null
    ? el('span', { class: 'between muted' }, `⋯ ${integer(list.shards - atMost)} more ⋯`)
    : cell(list, id)));
}

function cell(list, id) {
  let length = id === list.first ? list.head : id === list.last ? list.tail : list.capacity;
  if (length < 0) length = list.capacity; // an end is about to move
  const full = list.capacity ? Math.min(1, length / list.capacity) : 0;
  const part = list.placed?.[mod(id, list.parts)];
  const node = part ? part.node : list.at;
  const inside = Math.max(full > 0 ? 2 : 0, Math.round((height - 2) * full));
  const box = { x: 1, y: height - 1 - inside, width: width - 2, height: inside };
  const where = list.nodes.length > 1 ? `, slot ${part ? part.slot : list.slot} on ${list.nodes[node] ?? 'no node'}` : '';
  const to = part && part.to >= 0 ? `, moving to ${list.nodes[part.to]}` : '';
  return el('svg', { class: 'shard', width, height, role: 'img', 'data-node': node, 'data-to': part?.to ?? -1 },
    el('title', {}, `shard ${id}: ${list.placed && id !== list.first && id !== list.last ? 'closed' : plural(length, 'element')}${where}${to}`),
    el('rect', { class: 'shell', x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 2 }),
    el('rect', { class: list.placed ? colour(node) : 'plain', ...box, rx: 1 }),
    part && part.to >= 0 && el('rect', { class: `${colour(part.to)} moving`, x: width / 2, y: box.y, width: width / 2 - 1, height: inside, rx: 1 }));
}

// spreadOver shows which node has which part, and so many shards.
function spreadOver(list) {
  const counts = list.nodes.map(() => ({ parts: 0, shards: 0 }));
  list.placed.forEach((part, p) => {
    const node = counts[part.node];
    if (!node) return;
    node.parts++;
    if (list.length) node.shards += Math.max(0, Math.floor((list.last - p) / list.parts) - Math.floor((list.first - 1 - p) / list.parts));
  });
  const moving = list.placed.filter((part) => part.to >= 0).length;
  const most = Math.max(1, ...counts.map((c) => c.shards));
  return [
    el('table', { class: 'nodes' }, el('caption', {}, 'By node', moving ? ` – ${plural(moving, 'part')} moving` : ''), el('tbody', {}, list.nodes.map((name, i) => el('tr', {},
      el('th', { scope: 'row', class: 'mono' }, el('svg', { class: 'swatch', width: 12, height: 12, 'aria-hidden': 'true' }, el('rect', { class: colour(i), width: 12, height: 12, rx: 2 })), ` ${name}`),
      el('td', { class: 'number' }, plural(counts[i].parts, 'part')),
      el('td', { class: 'number' }, plural(counts[i].shards, 'shard')),
      el('td', {}, el('svg', { width: 160, height: 10, 'aria-hidden': 'true' }, el('rect', { class: colour(i), width: (160 * counts[i].shards) / most, height: 10, rx: 2 }))))))),
    el('p', { class: 'muted' }, 'Parts in the order of their slots:'),
    el('div', { class: 'parts' }, list.placed.map((part, p) => el('svg', { class: 'part', width: 12, height: 16, role: 'img', 'data-node': part.node, 'data-to': part.to },
      el('title', {}, `part ${p}, slot ${part.slot} on ${list.nodes[part.node] ?? 'no node'}${part.to >= 0 ? `, moving to ${list.nodes[part.to]}` : ''}`),
      el('rect', { class: colour(part.node), width: 12, height: 16, rx: 2 }),
      part.to >= 0 && el('rect', { class: `${colour(part.to)} moving`, x: 6, width: 6, height: 16, rx: 2 })))),
  ];
}
