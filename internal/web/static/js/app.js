// Shows all lists at #/, and one at #/list/<name>.

import { byId, el, fill } from './dom.js';
import { poll } from './api.js';
import { showLists } from './lists.js';
import { showList } from './list.js';

let current = new AbortController();

// told shows whether the server is there.
function told(err) {
  const status = byId('status');
  status.dataset.state = err ? 'away' : 'live';
  fill(status, err ? 'away' : 'live');
  const away = byId('away');
  away.hidden = !err;
  if (err) fill(away, `The server is away: ${err.message}. Trying again; what you see may be old.`);
}

// facts shows what each answer says of the server.
export function facts(answer) {
  fill(byId('server'), answer.server);
  byId('mode').hidden = !answer.changes;
}

function route() {
  current.abort();
  current = new AbortController();
  const view = byId('view');
  const name = location.hash.match(/^#\/list\/(.+)$/);
  const root = el('div', { class: name ? 'list' : 'lists' });
  fill(view, root);
  const { step, pause } = name ? showList(root, name[1], current.signal) : showLists(root, current.signal);
  scrollTo(0, 0);
  poll(step, pause, current.signal, told);
}

addEventListener('hashchange', () => {
  route();
  byId('view').focus({ preventScroll: true });
});

// Keys: / looks for a list, j and k go through the links of a table, Escape goes back to all lists.
addEventListener('keydown', (event) => {
  if (event.target.closest('input, textarea, select, dialog') || event.ctrlKey || event.metaKey || event.altKey) return;
  const links = [...document.querySelectorAll('tbody a.name')];
  const at = links.indexOf(document.activeElement);
  const actions = {
    '/': () => byId('match')?.focus(),
    j: () => links[Math.min(at + 1, links.length - 1)]?.focus(),
    k: () => links[Math.max(at - 1, 0)]?.focus(),
    Escape: () => { location.hash = '#/'; },
  };
  if (actions[event.key]) {
    actions[event.key]();
    event.preventDefault();
  }
});

route();
