// The token with which the page asks for data. It comes in the part of the address behind `#`, which no server gets, and is removed
// from there at once. It is kept in the storage of this origin, which unlike a cookie belongs to one port and is sent to no server.

import { basePath } from './address.js';
import { keepStored, readStored } from './storage.js';

export const TOKEN_KEY = `leaparray-token ${basePath()}`;
/** The token if the browser keeps nothing for this page. */
let unstoredToken = '';

/** The token, or an empty text. */
function readToken() {
  return readStored(TOKEN_KEY) ?? unstoredToken;
}

export function keepToken(token) {
  unstoredToken = token;
  keepStored(TOKEN_KEY, token);
}

/** Moves the token from the address into the storage. Returns whether there was one. */
export function takeToken() {
  const query = new URLSearchParams(location.hash.slice(1));
  const token = query.get('token');
  if (token === null) return false;
  query.delete('token');
  const rest = query.toString();
  history.replaceState(null, '', rest === '' ? location.pathname + location.search : `#${rest}`);
  keepToken(token.trim());
  return true;
}

/** The headers of a request for data. A token has nothing to encode, but a text that was entered can have what no header takes. */
export function tokenHeaders() {
  const token = readToken();
  return token === '' ? {} : { 'leaparray-token': encodeURIComponent(token) };
}
