// SPDX-License-Identifier: Apache-2.0
//
// Saying who one is: a user with a password, or a token. What is typed goes to the server with each
// call and into no storage.

import * as api from './api.js';
import { h, said } from './dom.js';

function labelled(id, label, attributes) {
  const input = h('input', { id, autocapitalize: 'off', spellcheck: 'false', ...attributes });
  return { input, element: h('div', { class: 'field' }, h('label', { for: id }, label), input) };
}

/** done(me) once the server knows who it is. */
export function signInView(done) {
  const user = labelled('signin-user', 'User', { name: 'username', autocomplete: 'username', maxlength: '64' });
  const password = labelled('signin-password', 'Password', { type: 'password', autocomplete: 'current-password' });
  const token = labelled('signin-token', 'Token', { type: 'password', autocomplete: 'off' });
  const error = h('p', { id: 'signin-error', class: 'trouble', role: 'alert', hidden: true });
  const submit = h('button', { id: 'signin-submit', type: 'submit', class: 'primary' }, 'Sign in');

  const tell = (text) => {
    error.replaceChildren(said(text));
    error.hidden = false;
  };

  async function send(event) {
    event.preventDefault();
    if (!token.input.value && !user.input.value) {
      tell('Give a user and a password, or a token.');
      user.input.focus();
      return;
    }
    submit.disabled = true;
    error.hidden = true;
    api.signIn({ user: user.input.value, password: password.input.value, token: token.input.value });
    try {
      const me = await api.get('v1/me');
      password.input.value = '';
      token.input.value = '';
      done(me);
    } catch (caught) {
      api.signOut();
      tell(caught.message);
      password.input.value = '';
      password.input.focus();
    } finally {
      submit.disabled = false;
    }
  }

  return h('form', { id: 'signin-form', class: 'card signin', onsubmit: send },
    h('p', {}, 'This server has users. Say who you are to see what is yours to see.'),
    user.element, password.element,
    h('p', { class: 'or', 'aria-hidden': 'true' }, h('span', {}, 'or')),
    token.element, error, submit,
    h('p', { class: 'muted' },
      'What you type stays in this page’s memory: closing or reloading it signs you out.'));
}
