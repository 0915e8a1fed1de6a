// SPDX-License-Identifier: Apache-2.0
//
// Lists of operations, page by page; whoever looks is given what is theirs to see.

import * as api from './api.js';

/** Names of namespaces that are known: declared, or used since the server's start. */
export async function namespaceNames(context) {
  const declared = await api.get('v1/namespaces');
  const used = (context.samples.stats?.namespaces ?? []).map((entry) => entry.namespace);
  const names = new Set([...declared.namespaces.map((policy) => policy.namespace), ...used]);
  // Not names, but words for "any" and "all further ones".
  for (const other of ['', '*', 'every other']) names.delete(other);
  return [...names].sort();
}

/** One page: {operations, cursor}; cursor is for the next page, null at the end. ns '' is all of
 * them. */
export async function operationsPage({ ns, state, count }, cursor, options) {
  const page = await api.get(ns ? api.path('v1/ops', ns) : 'v1/ops', { state, cursor, count }, options);
  return {
    operations: page.operations.map((operation) => ({ namespace: ns, ...operation })),
    cursor: page.cursor === '0' ? null : page.cursor,
  };
}
