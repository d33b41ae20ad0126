// The elements of a list at either end and around an index, and the jobs of a queue. They are read when asked for, not all the time.

import { el, fill } from './dom.js';
import { get } from './api.js';
import { asText, bytes, decode, duration, hex, indented, integer, time, visible } from './format.js';

const some = 10;
const line = 140; // characters of JSON that are shown as they are, unless JSON is asked for

export function elements(id, signal) {
  let list = null;
  let place = 'left';
  let form = 'auto';
  let answer = null;
  const index = el('input', { type: 'number', id: 'index', value: '0', step: '1', 'aria-label': 'Index', change: () => go('around') });
  const out = el('div', { class: 'elements', 'aria-live': 'off' });
  const note = el('p', { class: 'muted', role: 'status' });
  const places = {
    left: 'Left end', right: 'Right end', around: 'Around index', delayed: 'Delayed', leased: 'Leased', dead: 'Dead',
  };
  const tabs = Object.entries(places).map(([key, title]) => el('button', { 'data-place': key, 'aria-pressed': String(key === place), click: () => go(key) }, title));
  const forms = ['auto', 'text', 'json', 'hex'].map((key) => el('button', {
    'data-form': key, 'aria-pressed': String(key === form), click: () => { form = key; press(forms, 'form', key); draw(); },
  }, { auto: 'Auto', text: 'Text', json: 'JSON', hex: 'Hex' }[key]));
  const again = el('button', { click: () => refresh() }, 'Refresh');
  const node = el('div', {},
    el('div', { class: 'bar' },
      el('div', { class: 'group', role: 'group', 'aria-label': 'Which elements' }, tabs.slice(0, 3), index, tabs.slice(3)),
      el('div', { class: 'group', role: 'group', 'aria-label': 'Show as' }, forms), again),
    note, out);

  function go(to) {
    place = to;
    press(tabs, 'place', to);
    refresh();
  }

  async function refresh() {
    again.disabled = true;
    const wanted = place;
    try {
      const got = await get(path(), signal);
      if (wanted !== place) return;
      answer = got;
      draw();
    } catch (err) {
      if (!signal.aborted) fill(note, `Not read: ${err.message}`);
    } finally {
      again.disabled = false;
    }
  }

  function path() {
    if (place === 'delayed' || place === 'leased') return `/api/jobs?name=${id}&state=${place}`;
    if (place === 'dead') return `/api/elements?name=${list.dead}&start=0&count=${some}`;
    let start = 0;
    if (place === 'right') start = -some;
    if (place === 'around') {
      const at = Math.trunc(Number(index.value)) || 0;
      start = at < 0 ? Math.min(at - some / 2, -some) : Math.max(0, at - some / 2);
    }
    return `/api/elements?name=${id}&start=${start}&count=${some}`;
  }

  function draw() {
    if (!answer) return;
    const { elements: found, cut, now } = answer;
    const which = found.length === 0 ? 'Nothing there.' : place === 'delayed' ? 'The next to be due.' : place === 'leased' ? 'Those whose leases end first.' : '';
    const beside = ['left', 'right', 'around'].includes(place) && list.newcomers > 0;
    fill(note, [
      `As of ${time(now)}.`, which, cut ? 'The others were left out: these are large.' : '',
      beside ? `Without the ${integer(list.newcomers)} at the plain key beside the list.` : '',
    ].filter(Boolean).join(' '));
    fill(out, ...found.map((e) => show(e)));
  }

  function show(e) {
    const data = decode(e.data);
    const cut = data.length < e.size;
    const jobs = place === 'delayed' || place === 'leased';
    const chosen = place === 'around' && e.index === Math.trunc(Number(index.value));
    const more = cut && !jobs && el('button', { class: 'more', click: async () => {
      try {
        const whole = await get(`/api/elements?name=${place === 'dead' ? list.dead : id}&start=${e.index}&count=1`, signal);
        if (whole.elements.length && whole.elements[0].data.length > e.data.length) article.replaceWith(show(whole.elements[0]));
        else more.disabled = true;
      } catch (err) {
        fill(note, `Not read: ${err.message}`);
      }
    } }, 'Show more');
    const article = el('article', { class: chosen ? 'element chosen' : 'element', 'data-index': e.index },
      el('header', {}, el('span', { class: 'index mono' }, jobs ? '' : integer(e.index)), el('span', { class: 'muted' }, bytes(e.size).replace('–', '0 B')),
        cut && el('span', { class: 'muted' }, `first ${bytes(data.length)} shown`), e.job && about(e.job, answer.now), more),
      content(data, cut));
    return article;
  }

  function content(data, cut) {
    const text = asText(data, cut);
    if (form === 'hex' || (form === 'auto' && text === null)) return el('pre', { dir: 'ltr', tabindex: 0 }, hex(data));
    if (text === null) return el('pre', { class: 'muted' }, 'Not UTF-8: look at it as hex.');
    const json = form !== 'text' && !cut ? parse(text) : undefined;
    if (json !== undefined && (form === 'json' || (typeof json === 'object' && text.length > line))) return el('pre', { dir: 'ltr', tabindex: 0 }, visible(indented(text)));
    if (form === 'json') return el('pre', { class: 'muted' }, cut ? 'Too long to be shown as JSON.' : 'Not JSON.');
    return el('pre', { dir: 'ltr', tabindex: 0 }, visible(text));
  }

  return {
    node,
    refresh,
    show(next) {
      const first = list === null;
      list = next;
      const queue = Boolean(list.queue);
      tabs.slice(3).forEach((tab) => { tab.hidden = !queue; });
      if (first) refresh();
    },
  };
}

const press = (buttons, key, value) => buttons.forEach((b) => b.setAttribute('aria-pressed', String(b.dataset[key] === value)));

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// about says what is known of a job.
function about(job, now) {
  const words = [`job ${job.id}`];
  if (job.attempt) words.push(`attempt ${integer(job.attempt)}`);
  if (job.pushed) words.push(`pushed ${duration(now - job.pushed)} ago`);
  if (job.due) words.push(job.due > now ? `in ${duration(job.due - now)}` : `since ${duration(now - job.due)}`);
  if (job.error) words.push(`failed: ${job.error}`);
  return el('span', { class: 'muted' }, words.join(' · '));
}
