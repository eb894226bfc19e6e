// The view in the address: each view has a permalink, and the back button leads to the view before.

import { SORTS } from './order.js';

/** Reads the view from the part of the address behind `#`. */
export function readView() {
  const query = new URLSearchParams(location.hash.slice(1));
  const sort = query.get('sort') ?? 'trouble';
  const column = sort.replace(/^-/, '');
  return {
    resource: query.get('resource'),
    context: query.get('context'),
    at: /^\d{1,12}$/.test(query.get('at')) ? Number(query.get('at')) : null,
    filter: query.get('filter') ?? '',
    only: query.get('only') === 'trouble',
    sort: SORTS.has(column) ? column : 'trouble',
    up: sort.startsWith('-'),
    fleet: query.get('view') === 'fleet' && !query.has('resource'),
    window: query.get('window') === 'minute' ? 'minute' : 'second',
  };
}

/** The address of a view; `-` before the column turns its order round. */
export function viewHash(view) {
  const query = new URLSearchParams();
  if (view.fleet && view.resource === null) {
    query.set('view', 'fleet');
    if (view.window !== 'second') query.set('window', view.window);
  }
  if (view.resource !== null) query.set('resource', view.resource);
  if (view.resource !== null && view.context !== null) query.set('context', view.context);
  if (view.resource !== null && view.at !== null) query.set('at', view.at);
  if (view.only) query.set('only', 'trouble');
  if (view.filter !== '') query.set('filter', view.filter);
  if (view.sort !== 'trouble' || view.up) query.set('sort', (view.up ? '-' : '') + view.sort);
  return `#${query}`;
}

/** The folder of the page: also right if the page was opened without a slash at its end. */
export function basePath() {
  return location.pathname.replace(/\/+$/, '');
}
