// What changes a list. Each change wants the name of the list, typed.

import { byId, el, fill } from './dom.js';
import { post } from './api.js';
import { encode, integer } from './format.js';

export function changes(id, done) {
  let list;
  const offer = (key, title) => el('button', { 'data-change': key, class: key === 'delete' ? 'danger' : null, click: () => ask(list, key, id, done) }, title);
  const buttons = { push: offer('push', 'Push…'), trim: offer('trim', 'Trim…'), adopt: offer('adopt', 'Adopt…'), restore: offer('restore', 'Restore…'), delete: offer('delete', 'Delete…') };
  const node = el('div', { class: 'group changes', role: 'group', 'aria-label': 'Changes', hidden: true }, Object.values(buttons));
  return {
    node,
    show(next, allowed) {
      list = next;
      node.hidden = !allowed;
      const spread = list.form === 'spread';
      buttons.trim.hidden = spread;
      buttons.adopt.hidden = spread || !['plain', 'adopted', 'restored', 'restoring'].includes(list.form) && !list.newcomers;
      buttons.restore.hidden = spread || list.form === 'plain' || list.form === 'restored';
    },
  };
}

const texts = {
  push: ['Push to', 'Adds elements, one for each line.', 'Push'],
  trim: ['Trim', 'Keeps the elements from one index to another, and removes all others for good.', 'Trim'],
  adopt: ['Adopt', 'Turns the plain list into a sharded one, in steps. Others can use it meanwhile, through the library.', 'Adopt'],
  restore: ['Restore', 'Turns the sharded list into a plain one, in steps. Others can use it meanwhile, through the library.', 'Restore'],
  delete: ['Delete', 'Deletes the list and all its elements for good.', 'Delete for good'],
};

function ask(list, key, id, done) {
  const dialog = byId('dialog');
  const [verb, what, go] = texts[key];
  const label = (text, ...inputs) => el('label', {}, el('span', {}, text), inputs);
  const values = el('textarea', { rows: 4, spellcheck: 'false' });
  const end = el('select', {}, el('option', { value: 'right' }, 'right end'), el('option', { value: 'left' }, 'left end'));
  const start = el('input', { type: 'number', value: '0', required: true });
  const stop = el('input', { type: 'number', value: '-1', required: true });
  const popped = el('select', {}, el('option', { value: '' }, 'the server knows'), el('option', { value: 'left' }, 'left end'), el('option', { value: 'right' }, 'right end'));
  const confirm = el('input', { class: 'mono', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', id: 'confirm', input: () => { submit.disabled = confirm.value !== list.name; } });
  const result = el('p', { role: 'alert', class: 'fault' });
  const submit = el('button', { type: 'submit', class: key === 'delete' || key === 'trim' ? 'danger' : 'primary', disabled: true }, go);
  const fields = {
    push: () => [label('At the', end), label('Elements, one a line', values)],
    trim: () => [label('Keep from index', start), label('to index', stop)],
    adopt: () => [label('Consumers pop at the', popped)],
    restore: () => [label('Consumers pop at the', popped)],
    delete: () => [el('p', {}, `It has ${integer(list.length)} elements.`)],
  }[key]();
  const order = {
    push: () => ({ end: end.value, values: values.value.split('\n').map((line) => encode(new TextEncoder().encode(line))) }),
    trim: () => ({ start: Number(start.value), stop: Number(stop.value) }),
    adopt: () => ({ popped: popped.value }),
    restore: () => ({ popped: popped.value }),
    delete: () => ({}),
  }[key];
  const form = el('form', { submit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    fill(result, '');
    try {
      await post(`/api/${key}?name=${id}`, { confirm: confirm.value, ...order() });
      dialog.close();
      done();
    } catch (err) {
      fill(result, err.message);
      submit.disabled = false;
    }
  } },
  el('h2', { id: 'dialog-title' }, `${verb} `, el('bdi', { class: 'mono' }, list.name)), el('p', {}, what), fields,
  label('Type the name of the list to confirm', confirm), el('p', { class: 'muted' }, 'It is ', el('bdi', { class: 'mono' }, list.name)), result,
  el('div', { class: 'group' }, el('button', { type: 'button', click: () => dialog.close() }, 'Cancel'), submit));
  fill(dialog, form);
  dialog.showModal();
  (fields[0].querySelector?.('textarea, input') ?? confirm).focus();
}
