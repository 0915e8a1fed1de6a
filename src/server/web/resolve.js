// SPDX-License-Identifier: Apache-2.0
//
// Ending a doubt, in two steps: a button says which way, a dialog repeats what will be done.
//
// The fence that the person looked at goes with it. If someone else ended the doubt meanwhile, or a
// new attempt began, the server says STALE and nothing changes: nobody decides about an attempt
// that they did not see.

import * as api from './api.js';
import { facts, h, mono, said } from './dom.js';
import { visible } from './text.js';

const dialog = () => document.getElementById('resolve-dialog');

export const mayResolve = (me) => me?.role === 'admin';

function whyNot(me) {
  const role = `the role “${me?.role ?? 'none'}”`;
  const who = me?.user ? `${visible(me.user)} has ${role}` : `here everyone has ${role}`;
  return `Ending a doubt needs the role “admin”; ${who}.`;
}

/** The two buttons, and why they cannot be used where they cannot. */
export function resolveButtons(operation, context) {
  const allowed = mayResolve(context.me);
  const button = (done, label) => h('button', {
    type: 'button',
    class: 'secondary',
    'data-testid': done ? 'happened' : 'not-happened',
    disabled: !allowed,
    onclick: (event) => ask(operation, done, context, event.currentTarget),
  }, label, h('span', { class: 'hidden' }, `: ${visible(operation.key)} in ${visible(operation.namespace)}`));
  return h('div', { class: 'decide', role: 'group', 'aria-label': 'How did it end?' },
    button(true, 'It happened'), button(false, 'It did not happen'),
    !allowed && h('p', { class: 'why muted' }, whyNot(context.me)));
}

/** The code that the kind of operation suggests: a command's exit status, an HTTP status. */
function suggestedCode(operation, context) {
  if (operation.point === 'request' || operation.namespace === 'call') return 200;
  return context.codesOf(operation.namespace) === 'http' ? 200 : 0;
}

function summary(operation, done) {
  const what = done
    ? 'You say that this operation happened. Every retry of its key is answered with the code and '
      + 'result below, and nobody executes it again.'
    : 'You say that this operation did not happen. The key is free again: the next retry executes '
      + 'it. If it did happen after all, it happens twice.';
  return [
    h('p', { class: done ? null : 'warning' }, what),
    facts([
      ['Key', mono(operation.key)],
      ['Namespace', mono(operation.namespace)],
      ['Attempt', `${operation.attempt}, fence ${operation.fence}`],
      operation.owner && ['Owner', mono(operation.owner)],
      operation.point && ['Last point', mono(operation.point)],
    ]),
  ];
}

function answerFields(operation, context) {
  const code = h('input', { id: 'resolve-code', type: 'number', step: '1', min: '-2147483648', max: '2147483647',
    required: true, inputmode: 'numeric', value: String(suggestedCode(operation, context)) });
  const result = h('textarea', { id: 'resolve-result', rows: '4', spellcheck: 'false', maxlength: '1000000',
    'aria-describedby': 'resolve-result-note' });
  const element = h('div', { class: 'fields' },
    h('label', { for: 'resolve-code' }, 'Code'), code,
    h('label', { for: 'resolve-result' }, 'Result'), result,
    h('p', { id: 'resolve-result-note', class: 'muted' },
      'The answer that retries are given, as text. It may be empty.'));
  return { element, code, result };
}

function outcomeText(operation, done) {
  const name = `${visible(operation.key)} in ${visible(operation.namespace)}`;
  return done ? `Recorded: ${name} happened.` : `Recorded: ${name} did not happen. Its key is free.`;
}

const REFUSALS = {
  stale: 'this doubt has ended meanwhile, or another attempt has begun.',
  'not-found': 'the operation was forgotten meanwhile.',
  mismatch: 'someone has ended this doubt already, with another outcome.',
  busy: 'another attempt is under way.',
};

function failureText(error) {
  if (error.status === 0) {
    return 'No answer came, so nobody knows whether it was recorded. Sending it again is safe: '
      + 'it is recorded once.';
  }
  const known = Object.hasOwn(REFUSALS, error.kind);
  return `Nothing was changed: ${known ? `${REFUSALS[error.kind]} Close this and look again.` : error.message}`;
}

async function send(operation, done, fields, context) {
  const body = { done, fence: operation.fence };
  if (done) Object.assign(body, { code: Number(fields.code.value), result: fields.result.value });
  await api.post(api.path('v1/ops', operation.namespace, operation.key, 'resolve'), body);
  context.announce(outcomeText(operation, done));
}

/** Opens the dialog. The element that opened it gets the focus back, if it is still there. */
function ask(operation, done, context, opener) {
  const box = dialog();
  const fields = done ? answerFields(operation, context) : null;
  const error = h('p', { id: 'resolve-error', class: 'trouble', role: 'alert', hidden: true });
  const confirm = h('button', { id: 'resolve-confirm', type: 'submit', class: done ? 'primary' : 'danger' },
    done ? 'Record that it happened' : 'Record that it did not happen');
  const cancel = h('button', { id: 'resolve-cancel', type: 'button', class: 'quiet',
    onclick: () => box.close() }, 'Cancel');
  const form = h('form', { method: 'dialog', onsubmit: submit },
    h('h2', { id: 'resolve-title' }, done ? 'It happened' : 'It did not happen'),
    h('div', { id: 'resolve-summary' }, summary(operation, done)),
    fields?.element, error, h('div', { class: 'dialog-end' }, cancel, confirm));

  async function submit(event) {
    event.preventDefault();
    if (confirm.disabled) return;
    confirm.disabled = true;
    error.hidden = true;
    try {
      await send(operation, done, fields, context);
      box.close();
      context.resolved(operation, done);
    } catch (caught) {
      error.replaceChildren(said(failureText(caught)));
      error.hidden = false;
      if (caught.status !== 0) context.refused(); // what is behind the dialog is not so any more
    } finally {
      confirm.disabled = false;
    }
  }

  box.replaceChildren(form);
  box.onclose = () => {
    if (box.open) return; // the news that it was closed comes late: it has been opened again
    box.replaceChildren();
    if (opener.isConnected) opener.focus();
    else document.getElementById('title').focus();
  };
  box.showModal();
  (fields?.code ?? cancel).focus();
}
